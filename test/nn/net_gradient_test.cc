// Gradients of complete nets: compared with differences of the loss, accumulated over passes and
// branches, and with dropout.
#include <cmath>

#include "test/nn/net_support.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// Smooth everywhere, so that finite differences approximate the derivative.
const char kSmooth[] = R"(
layer { name: 'data' type: 'Input' top: 'data' top: 'label'
        input_param { shape { dim: 4 dim: 2 dim: 7 dim: 6 } shape { dim: 4 } } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
        convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'
        pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: 'norm' type: 'LRN' bottom: 'pool' top: 'norm' lrn_param { local_size: 3 alpha: 0.5 } }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'norm' top: 'ip1'
        inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' param { name: 'w' }
        inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'ip3' type: 'InnerProduct' bottom: 'ip2' top: 'ip3' param { name: 'w' }
        inner_product_param { num_output: 5 } }
layer { name: 'side' type: 'InnerProduct' bottom: 'ip1' top: 'side'
        inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip3' bottom: 'label' top: 'loss' }
layer { name: 'side_loss' type: 'SoftmaxWithLoss' bottom: 'side' bottom: 'label' top: 'side_loss'
        loss_weight: 0.3 }
)";

TEST(NetGradient, IsTheDerivativeOfTheLossByEveryParameter) {
  TestNet net(kSmooth);
  FillRandom(net->FindBlob("data"), 1);
  FillRandom(net->FindBlob("label"), 2, 3);
  net.Pass();
  Rng rng(Seed(), {1});
  for (const ParamEntry& entry : net->layout().entries()) {
    const std::vector<float> gradient = net.Gradient(entry.name);
    for (int sample = 0; sample < 8; ++sample) {
      const int64_t index = static_cast<int64_t>(rng.Below(entry.count));
      float* weight = net.weights() + entry.offset + index;
      const float before = *weight, step = 0.02f;
      *weight = before + step;
      const double above = net->Forward();
      *weight = before - step;
      const double below = net->Forward();
      *weight = before;
      EXPECT_NEAR(gradient[index], (above - below) / (2 * step), 1e-3)
          << entry.name << " at " << index;
    }
  }
}

TEST(NetGradient, AddsUpOverPassesUntilItIsCleared) {
  TestNet net(kSmooth);
  FillRandom(net->FindBlob("data"), 1);
  FillRandom(net->FindBlob("label"), 2, 3);
  for (const ParamEntry& entry : net->layout().entries()) {
    net.Pass();
    const std::vector<float> once = net.Gradient(entry.name);
    net.Pass();
    EXPECT_EQ(net.Gradient(entry.name), once) << entry.name;
    net->Forward();
    net->Backward();
    const std::vector<float> twice = net.Gradient(entry.name);
    for (size_t i = 0; i < once.size(); ++i) {
      ASSERT_NEAR(twice[i], 2 * once[i], 1e-5 + 1e-5 * std::abs(once[i])) << entry.name;
    }
  }
}

// Two branches that read one blob.
std::string Branches(bool with_accuracy) {
  return std::string(R"(
layer { name: 'data' type: 'Input' top: 'data' top: 'label'
        input_param { shape { dim: 4 dim: 6 } shape { dim: 4 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
        inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
)") + (with_accuracy ? "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' "
                       "top: 'accuracy' }"
                     : "");
}

TEST(NetGradient, OfASplitBlobIsTheSumOfItsConsumers) {
  const std::string second =
      "layer { name: 'loss2' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss2' "
      "loss_weight: 2 }";
  TestNet one(Branches(false)), both(Branches(false) + second);
  for (TestNet* net : {&one, &both}) {
    FillRandom((*net)->FindBlob("data"), 1);
    FillRandom((*net)->FindBlob("label"), 2, 3);
  }
  EXPECT_NEAR(both.Pass(), 3 * one.Pass(), 1e-5);
  const std::vector<float> single = one.Gradient("ip/0"), sum = both.Gradient("ip/0");
  for (size_t i = 0; i < single.size(); ++i) EXPECT_NEAR(sum[i], 3 * single[i], 1e-5);
}

TEST(NetGradient, DoesNotChangeWhenAnAccuracyLooksOn) {
  TestNet alone(Branches(false)), watched(Branches(true));
  for (TestNet* net : {&alone, &watched}) {
    FillRandom((*net)->FindBlob("data"), 1);
    FillRandom((*net)->FindBlob("label"), 2, 3);
  }
  EXPECT_EQ(watched.Pass(), alone.Pass());
  EXPECT_EQ(watched.Gradient("ip/0"), alone.Gradient("ip/0"));
  EXPECT_FALSE(watched.NodeOf("accuracy").need_backward);
}

const char kDropout[] = R"(
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 200 } } }
layer { name: 'drop' type: 'Dropout' bottom: 'data' top: 'drop' }
layer { name: 'drop2' type: 'Dropout' bottom: 'data' top: 'drop2' }
)";

std::vector<float> Dropped(TestNet* net, uint64_t pass, const char* top = "drop") {
  Blob* data = (*net)->FindBlob("data");
  std::fill_n(data->data(), data->count(), 1.0f);
  (*net)->set_pass(pass);
  (*net)->Forward();
  return Values(*(*net)->FindBlob(top));
}

TEST(NetDropout, MasksDependOnSeedLayerAndPassAndOnNothingElse) {
  TestNet net(kDropout), twin(kDropout);
  const std::vector<float> first = Dropped(&net, 3);
  EXPECT_NE(first, Dropped(&net, 4));
  EXPECT_NE(first, Dropped(&net, 3, "drop2"));
  EXPECT_EQ(first, Dropped(&net, 3));
  EXPECT_EQ(first, Dropped(&twin, 3));
  BuiltNetOptions other = InPhase(caffe::TRAIN);
  other.seed = 8;
  TestNet another(kDropout, other);
  EXPECT_NE(first, Dropped(&another, 3));
}

TEST(NetDropout, DropsNothingInTests) {
  TestNet net(kDropout, InPhase(caffe::TEST));
  EXPECT_EQ(Dropped(&net, 3), std::vector<float>(400, 1.0f));
}

}  // namespace
}  // namespace millrace::test
