// The net chooses the memory layout of activations; the results are the same in every layout.
#include <cmath>

#include "base/simd.h"
#include "test/nn/net_support.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// LeNet's layers at a smaller size; 20 channels do not fill blocks.
const char kLenet[] = R"(
layer { name: 'data' type: 'Input' top: 'data' top: 'label'
        input_param { shape { dim: 3 dim: 1 dim: 20 dim: 20 } shape { dim: 3 } } }
layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'
        convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: 'xavier' } } }
layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1'
        pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: 'conv2' type: 'Convolution' bottom: 'pool1' top: 'conv2'
        convolution_param { num_output: 50 kernel_size: 5 weight_filler { type: 'xavier' } } }
layer { name: 'pool2' type: 'Pooling' bottom: 'conv2' top: 'pool2'
        pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool2' top: 'ip1'
        inner_product_param { num_output: 30 weight_filler { type: 'xavier' } } }
layer { name: 'relu1' type: 'ReLU' bottom: 'ip1' top: 'ip1' }
layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2'
        inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip2' bottom: 'label' top: 'accuracy' }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }
)";

// The layers of Caffe's two CIFAR-10 nets: padding, overlapping pooling of both kinds, in-place
// ReLU on 4 axes, LRN, and channel numbers that fill blocks of 16.
const char kCifar[] = R"(
layer { name: 'data' type: 'Input' top: 'data' top: 'label'
        input_param { shape { dim: 2 dim: 3 dim: 17 dim: 16 } shape { dim: 2 } } }
layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'
        convolution_param { num_output: 32 pad: 2 kernel_size: 5 weight_filler { type: 'xavier' } } }
layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1'
        pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: 'relu1' type: 'ReLU' bottom: 'pool1' top: 'pool1' }
layer { name: 'norm1' type: 'LRN' bottom: 'pool1' top: 'norm1'
        lrn_param { local_size: 3 alpha: 0.05 beta: 0.75 norm_region: WITHIN_CHANNEL } }
layer { name: 'conv2' type: 'Convolution' bottom: 'norm1' top: 'conv2'
        convolution_param { num_output: 32 pad: 2 kernel_size: 5 weight_filler { type: 'xavier' } } }
layer { name: 'relu2' type: 'ReLU' bottom: 'conv2' top: 'conv2' }
layer { name: 'pool2' type: 'Pooling' bottom: 'conv2' top: 'pool2'
        pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: 'norm2' type: 'LRN' bottom: 'pool2' top: 'norm2' lrn_param { local_size: 5 } }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'norm2' top: 'ip1'
        inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip1' bottom: 'label' top: 'loss' }
)";

// Layers that prefer different layouts: blobs of 16, 10 and 5 channels, one of them consumed by
// three layers and by the objective, in-place softmax over the channels, dropout, and an output
// with four axes.
const char kMixed[] = R"(
layer { name: 'data' type: 'Input' top: 'data' top: 'label'
        input_param { shape { dim: 2 dim: 3 dim: 9 dim: 9 } shape { dim: 2 } } }
layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' loss_weight: 0.01
        convolution_param { num_output: 16 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'conv2' type: 'Convolution' bottom: 'conv1' top: 'conv2'
        convolution_param { num_output: 10 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'softmax' type: 'Softmax' bottom: 'conv2' top: 'conv2' }
layer { name: 'conv3' type: 'Convolution' bottom: 'conv2' top: 'conv3'
        convolution_param { num_output: 5 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'conv3' top: 'ip'
        inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }
layer { name: 'side' type: 'InnerProduct' bottom: 'conv1' top: 'side'
        inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }
layer { name: 'drop' type: 'Dropout' bottom: 'side' top: 'side' }
layer { name: 'loss1' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss1' }
layer { name: 'loss2' type: 'SoftmaxWithLoss' bottom: 'side' bottom: 'label' top: 'loss2' }
layer { name: 'shown' type: 'Pooling' bottom: 'conv1' top: 'shown'
        pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
)";

struct NamedNet {
  const char* name;
  const char* text;
  int classes;
};

void PrintTo(const NamedNet& net, std::ostream* out) { *out << net.name; }

const char* LayoutName(Layout layout) {
  switch (layout) {
    case Layout::kPlain:
      return "Plain";
    case Layout::kNhwc:
      return "Nhwc";
    case Layout::kBlocked8:
      return "Blocked8";
    case Layout::kBlocked16:
      return "Blocked16";
  }
  return "";
}

TestNet Build(const NamedNet& named, std::optional<Layout> layout) {
  BuiltNetOptions options = InPhase(caffe::TRAIN);
  options.layout = layout;
  TestNet net(named.text, options);
  FillRandom(net->FindBlob("data"), 1);
  FillRandom(net->FindBlob("label"), 2, named.classes);
  return net;
}

// Equality within rounding: the largest difference, relative to the largest value.
void ExpectSame(const std::vector<float>& values, const std::vector<float>& plain,
                const std::string& what) {
  ASSERT_EQ(values.size(), plain.size()) << what;
  double largest = 0, diff = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    largest = std::max<double>(largest, std::abs(plain[i]));
    diff = std::max<double>(diff, std::abs(plain[i] - values[i]));
  }
  EXPECT_GT(largest, 0) << what;
  EXPECT_LE(diff, 2e-5 * largest) << what;
}

class NetLayout : public testing::TestWithParam<std::tuple<NamedNet, Layout>> {};

TEST_P(NetLayout, GivesTheResultsOfPlainOrder) {
  const auto [named, layout] = GetParam();
  TestNet plain = Build(named, Layout::kPlain), net = Build(named, layout);
  EXPECT_EQ(plain.Reorders(), 0);
  EXPECT_NEAR(net.Pass(), plain.Pass(), 1e-5);
  ASSERT_EQ(net->outputs().size(), plain->outputs().size());
  for (size_t i = 0; i < plain->outputs().size(); ++i) {
    EXPECT_EQ(net->outputs()[i].name, plain->outputs()[i].name);
    if (plain->outputs()[i].name == "accuracy") continue;  // may be 0
    ExpectSame(Values(*net->outputs()[i].blob), Values(*plain->outputs()[i].blob),
               plain->outputs()[i].name);
  }
  for (const ParamEntry& entry : plain->layout().entries()) {
    ExpectSame(net.Gradient(entry.name), plain.Gradient(entry.name), entry.name);
  }
}

TEST_P(NetLayout, SecondPassesEqualFirstOnes) {
  const auto [named, layout] = GetParam();
  TestNet net = Build(named, layout);
  const float loss = net.Pass(5);
  std::vector<std::vector<float>> gradients;
  for (const ParamEntry& entry : net->layout().entries()) {
    gradients.push_back(net.Gradient(entry.name));
  }
  EXPECT_EQ(net.Pass(5), loss);
  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_EQ(net.Gradient(net->layout().entries()[i].name), gradients[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, NetLayout,
    testing::Combine(testing::Values(NamedNet{"Lenet", kLenet, 10}, NamedNet{"Cifar", kCifar, 10},
                                     NamedNet{"Mixed", kMixed, 4}),
                     testing::Values(Layout::kNhwc, Layout::kBlocked8, Layout::kBlocked16)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) + LayoutName(std::get<1>(info.param));
    });

TEST(NetReorder, ConversionsAreInsertedWhereLayersDisagreeOnly) {
  // One conversion, before the inner product: the data has one channel, and the convolutions read
  // and write the same layout.
  TestNet lenet = Build({"", kLenet, 10}, Layout::kNhwc);
  const std::vector<std::string> names = lenet.LayerNames();
  EXPECT_EQ(std::count(names.begin(), names.end(), "pool2_reorder"), 1);
  TestNet mixed = Build({"", kMixed, 4}, Layout::kBlocked16);
  EXPECT_GT(mixed.Reorders(), 2);
}

// In blocked layouts, oneDNN has only its reference code for these groups, which is hundreds of
// times slower.
TEST(NetReorder, GroupsThatFillNoBlockAreComputedInAnotherOrder) {
  const auto layout_with = [](int channels) {
    const std::string text =
        StrCat("layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: ",
               channels, " dim: 9 dim: 9 } } }\n",
               "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'\n",
               "  convolution_param { num_output: 32 group: 2 kernel_size: 5 } }");
    BuiltNetOptions options = InPhase(caffe::TRAIN);
    options.layout = Layout::kBlocked8;
    TestNet net(text, options);
    EXPECT_EQ(net.NodeOf("conv").bottom[0]->layout(), net.NodeOf("conv").top[0]->layout());
    return net.NodeOf("conv").top[0]->layout();
  };
  EXPECT_NE(layout_with(24), Layout::kBlocked8);
  // Without AVX2, there are no backward passes in blocked layouts.
  if (SimdSupported(Simd::kAvx2)) {
    EXPECT_EQ(layout_with(32), Layout::kBlocked8);
  }
}

TEST(NetReorder, AnInputIsTheBlobBeforeItsConversion) {
  TestNet net = Build({"", kCifar, 10}, Layout::kNhwc);
  EXPECT_EQ(net->FindBlob("data"), net.NodeOf("data").top[0]);
  EXPECT_NE(net->FindBlob("data"), net.NodeOf("conv1").bottom[0]);
}

TEST(NetReorder, IsNoPartOfASavedNet) {
  TestNet plain = Build({"", kMixed, 4}, Layout::kPlain);
  TestNet blocked = Build({"", kMixed, 4}, Layout::kBlocked16);
  caffe::NetParameter saved, expected;
  plain->ToProto(&expected, false);
  blocked->ToProto(&saved, false);
  EXPECT_EQ(saved.SerializeAsString(), expected.SerializeAsString());
}

TEST(NetReorder, WeightsAreLaidOutAlikeInEveryOrder) {
  TestNet plain = Build({"", kCifar, 10}, Layout::kPlain);
  TestNet chosen = Build({"", kCifar, 10}, std::nullopt);
  EXPECT_EQ(plain->layout().Digest(), chosen->layout().Digest());
  EXPECT_NEAR(chosen.Pass(), plain.Pass(), 1e-5);
}

}  // namespace
}  // namespace millrace::test
