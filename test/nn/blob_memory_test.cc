// Gradients of activations, and values that no backward pass reads, share memory: the results of a
// net that keeps them all, in less memory.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/nn/net_support.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// A long chain with a branch, in-place layers, a loss in the middle, and a top that nobody reads.
std::string Text(int layers) {
  std::string text =
      "force_backward: true "
      "layer { name: 'in' type: 'Input' top: 'b0' input_param { shape { dim: 4 dim: 20 } } }";
  for (int i = 0; i < layers; ++i) {
    const std::string top = StrCat("b", i + 1);
    text += StrCat("layer { name: 'ip", i, "' type: 'InnerProduct' bottom: 'b", i, "' top: '", top,
                   "' inner_product_param { num_output: 20 weight_filler { type: 'xavier' } } }"
                   "layer { name: 'r",
                   i, "' type: 'ReLU' bottom: '", top, "' top: '", top, "' }");
  }
  return text + StrCat("layer { name: 'slice' type: 'Slice' bottom: 'b", layers,
                       "' top: 's' top: 'unread' slice_param { slice_point: 8 } }"
                       "layer { name: 'sum' type: 'Eltwise' bottom: 'b1' bottom: 'b",
                       layers,
                       "' top: 'e' }"
                       "layer { name: 'm' type: 'Power' bottom: 'b2' top: 'm' loss_weight: 0.1 "
                       "power_param { power: 2 } }"
                       "layer { name: 'l1' type: 'Reduction' bottom: 's' top: 'l1' loss_weight: 1 }"
                       "layer { name: 'l2' type: 'Reduction' bottom: 'e' top: 'l2' loss_weight: 2 "
                       "reduction_param { operation: SUMSQ } }");
}

// One pass of both nets with the same input and the same gradients of the weights.
void ExpectSamePass(int pass, TestNet* kept, TestNet* shared) {
  for (TestNet* net : {kept, shared}) {
    FillRandom((*net)->FindBlob("b0"), pass);
    net->Pass(pass);
  }
  const int64_t size = (*kept)->layout().size();
  EXPECT_EQ(std::vector<float>((*shared)->gradients(), (*shared)->gradients() + size),
            std::vector<float>((*kept)->gradients(), (*kept)->gradients() + size));
}

TEST(BlobMemory, GivesTheSameGradients) {
  BuiltNetOptions keep = InPhase(caffe::TRAIN);
  keep.keep_activations = true;
  TestNet kept(Text(6), keep), shared(Text(6));
  for (int pass = 0; pass < 3; ++pass) {
    ExpectSamePass(pass, &kept, &shared);
    const Blob &of_shared = *shared->FindBlob("b0"), &of_kept = *kept->FindBlob("b0");
    EXPECT_EQ(std::vector<float>(of_shared.diff(), of_shared.diff() + of_shared.count()),
              std::vector<float>(of_kept.diff(), of_kept.diff() + of_kept.count()));
  }
}

TEST(BlobMemory, DoesNotGrowWithTheLayers) {
  BuiltNetOptions keep = InPhase(caffe::TRAIN);
  keep.keep_activations = true;
  const auto added = [&](const BuiltNetOptions& options) {
    return TestNet(Text(40), options)->activation_bytes() -
           TestNet(Text(20), options)->activation_bytes();
  };
  // Values and gradients of 20 blobs, or values alone.
  constexpr size_t kValues = 20 * 4 * 20 * sizeof(float);
  EXPECT_EQ(added(keep), 2 * kValues);
  EXPECT_EQ(added(InPhase(caffe::TRAIN)), kValues);
}

// Residual blocks: what the normalisation writes is read by the sum only.
std::string Blocks(int blocks) {
  std::string text =
      "force_backward: true "
      "layer { name: 'in' type: 'Input' top: 'b0' input_param { shape { dim: 4 dim: 20 } } }";
  for (int i = 0; i < blocks; ++i) {
    const auto names = [&](const std::string& name, const std::string& type) {
      return StrCat("layer { name: '", name, i, "' type: '", type, "' bottom: 'y", i, "' top: 'y",
                    i, "' ");
    };
    text += StrCat("layer { name: 'ip", i, "' type: 'InnerProduct' bottom: 'b", i, "' top: 'y", i,
                   "' inner_product_param { num_output: 20 weight_filler { type: 'xavier' } } }",
                   names("norm", "BatchNorm"), "}", names("scale", "Scale"),
                   "scale_param { bias_term: true } }", "layer { name: 'sum", i,
                   "' type: 'Eltwise' bottom: 'b", i, "' bottom: 'y", i, "' top: 'b", i + 1, "' }");
  }
  return text + StrCat("layer { name: 'l' type: 'Reduction' bottom: 'b", blocks,
                       "' top: 'l' loss_weight: 1 reduction_param { operation: SUMSQ } }");
}

TEST(BlobMemory, HoldsValuesThatNoBackwardPassReads) {
  BuiltNetOptions keep = InPhase(caffe::TRAIN);
  keep.keep_activations = true;
  TestNet kept(Blocks(5), keep), shared(Blocks(5));
  for (int pass = 0; pass < 3; ++pass) {
    ExpectSamePass(pass, &kept, &shared);
    EXPECT_EQ(shared->Loss(), kept->Loss());
  }
  const auto added = [&](const BuiltNetOptions& options) {
    return TestNet(Blocks(40), options)->activation_bytes() -
           TestNet(Blocks(20), options)->activation_bytes();
  };
  // A block has two blobs with values and gradients; only the sum has to keep its values.
  constexpr size_t kBlobs = 20 * 4 * 20 * sizeof(float);
  // The gradient of a block's bottom, which is split, is the sum of two parts.
  EXPECT_EQ(added(keep), 6 * kBlobs);
  EXPECT_EQ(added(InPhase(caffe::TRAIN)), kBlobs);
}

TEST(BlobMemory, FollowsShapesThatChange) {
  const std::string text =
      "force_backward: true "
      "layer { name: 'in' type: 'Input' top: 'x' top: 'keep' input_param { shape { dim: 6 dim: 3 } "
      "shape { dim: 6 } } }"
      "layer { name: 'f' type: 'Filter' bottom: 'x' bottom: 'keep' top: 'f' }"
      "layer { name: 'a' type: 'Power' bottom: 'f' top: 'a' power_param { scale: 3 } }"
      "layer { name: 'b' type: 'Power' bottom: 'a' top: 'b' power_param { power: 2 } }"
      "layer { name: 'l' type: 'Reduction' bottom: 'b' top: 'l' loss_weight: 1 }";
  TestNet net(text);
  for (const int rows : {1, 6, 2, 5}) {
    FillRandom(net->FindBlob("x"), rows);
    for (int i = 0; i < 6; ++i) net->FindBlob("keep")->data()[i] = i < rows ? 1 : 0;
    net.Pass();
    const Blob& x = *net->FindBlob("x");
    for (int64_t i = 0; i < x.count(); ++i) {
      // d (3 x)^2 = 18 x where the row is kept
      EXPECT_NEAR(x.diff()[i], i < 3 * rows ? 18 * x.data()[i] : 0, 1e-4) << rows << " " << i;
    }
  }
}

}  // namespace
}  // namespace millrace::test
