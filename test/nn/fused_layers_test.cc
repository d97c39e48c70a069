// Layers that do the work of those behind them (BatchNorm that of Scale and ReLU; on GPUs,
// convolutions and inner products that of a ReLU): the same values and gradients as of the layers
// one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "test/nn/net_support.h"
#include "test/support/blob_values.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using Floats = std::vector<float>;

struct Chain {
  bool in_place = true;  // BatchNorm overwrites its bottom
  bool bias = true;      // of Scale
  bool relu = true;
  bool global = false;  // use_global_stats
  bool frozen = false;  // Scale has lr_mult 0
};

std::string FusedText(const Chain& chain) {
  const std::string top = chain.in_place ? "x" : "n";
  std::string text = StrCat(
      "force_backward: true "
      "layer { name: 'in' type: 'Input' top: 'in' input_param { shape { dim: 3 dim: 16 dim: 5 "
      "dim: 3 } } }"
      "layer { name: 'conv' type: 'Convolution' bottom: 'in' top: 'x' convolution_param {"
      "  num_output: 16 kernel_size: 1 weight_filler { type: 'xavier' } } }"
      "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: '",
      top, "' batch_norm_param { use_global_stats: ", chain.global ? "true" : "false",
      " } }"
      "layer { name: 'scale' type: 'Scale' bottom: '",
      top, "' top: '", top, "' ", chain.frozen ? "param { lr_mult: 0 } " : "",
      chain.frozen && chain.bias ? "param { lr_mult: 0 } " : "",
      "scale_param { filler { type: 'uniform' min: -2 max: 2 } ",
      chain.bias ? "bias_term: true bias_filler { type: 'uniform' min: -1 max: 1 }" : "", " } }");
  if (chain.relu) {
    text += StrCat("layer { name: 'relu' type: 'ReLU' bottom: '", top, "' top: '", top, "' }");
  }
  return text + StrCat("layer { name: 'exp' type: 'Exp' bottom: '", top,
                       "' top: 'y' exp_param { scale: 0.5 } loss_weight: 1 }");
}

// Everything that a pass computes.
struct Result {
  float loss = 0;
  Floats top, input_diff, gradients;
};

Result Pass(const std::string& text, Device& device, const BuiltNetOptions& given) {
  caffe::NetParameter param;
  SourceMap source;
  ParseText(text, "net.prototxt", &param, &source);
  BuiltNetOptions options = given;
  options.device = &device;
  BuiltNet net(param, source, options);
  const int64_t size = net.layout().size();
  Buffer weights(device.memory(), size * sizeof(float));
  device.memory().Fill(weights.get(), 0, size * sizeof(float));
  net.BindWeights(weights.get<float>());
  net.FillWeights();
  // Statistics of earlier batches, for those that use them.
  Layer* const norm = net.FindLayer("bn");
  for (int i = 0; norm != nullptr && i < 3; ++i) {
    const Blob& blob = *norm->params()[i].blob;
    Floats values(blob.count());
    for (size_t k = 0; k < values.size(); ++k) values[k] = i == 2 ? 2 : 1 + 0.1f * k;
    net.queue().Synchronize();
    const_cast<Blob&>(blob).CopyDataFromHost(values.data());
  }
  Blob x(net.FindBlob("in")->shape());
  FillRandom(&x, 3);
  net.FindBlob("in")->CopyDataFromHost(x.data());
  Result result;
  result.loss = net.Forward();
  net.Backward();
  net.queue().Synchronize();
  result.top = net.OutputValues();
  const Blob& in = *net.FindBlob("in");
  result.input_diff.resize(in.count());
  in.CopyDiffToHost(result.input_diff.data());
  result.gradients.resize(size);
  device.memory().CopyToHost(result.gradients.data(), net.gradients(), size * sizeof(float));
  return result;
}

void ExpectNear(const Floats& actual, const Floats& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  float largest = 0;
  for (const float x : expected) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-5f * largest + 1e-7f) << what << " " << i;
  }
}

void ExpectSame(const Result& actual, const Result& expected) {
  EXPECT_NEAR(actual.loss, expected.loss, 1e-5 * expected.loss);
  ExpectNear(actual.top, expected.top, "value");
  ExpectNear(actual.input_diff, expected.input_diff, "diff of the input");
  ExpectNear(actual.gradients, expected.gradients, "gradient");
}

std::vector<Chain> Chains() {
  std::vector<Chain> chains;
  for (int bits = 0; bits < 32; ++bits) {
    chains.push_back(
        {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0});
  }
  return chains;
}

TEST(FusedLayers, ComputeTheSameInEveryMemoryOrder) {
  for (const Chain& chain : Chains()) {
    BuiltNetOptions options = InPhase(caffe::TRAIN);
    options.fuse = false;
    const std::string text = FusedText(chain);
    const Result expected = Pass(text, HostDevice(), options);
    for (const Layout layout :
         {Layout::kPlain, Layout::kNhwc, Layout::kBlocked8, Layout::kBlocked16}) {
      SCOPED_TRACE(StrCat(text, " ", LayoutName(layout)));
      options.layout = layout;
      options.fuse = true;
      ExpectSame(Pass(text, HostDevice(), options), expected);
    }
  }
}

// The first layer does the work: nothing is left for the others.
TEST(FusedLayers, LeaveTheLastValuesInTheTopOfTheFirst) {
  for (const bool fuse : {true, false}) {
    BuiltNetOptions options = InPhase(caffe::TRAIN);
    options.fuse = fuse;
    TestNet net(FusedText({}), options);
    FillRandom(net->FindBlob("in"), 3);
    net->Forward();
    const Floats final = Values(*net->FindBlob("x"));
    const auto& nodes = net->nodes();
    size_t bn = 0;
    while (nodes[bn].layer->name() != "bn") ++bn;
    for (size_t n = 0; n <= bn; ++n) net->ForwardNode(n);
    EXPECT_EQ(Values(*net->FindBlob("x")) == final, fuse);
  }
}

TEST(FusedLayers, WorkOnTheirOwnWithDebugInfo) {
  TestNet net(FusedText({}));
  net->set_debug_info(true);
  FillRandom(net->FindBlob("in"), 3);
  const auto& nodes = net->nodes();
  size_t n = 0;
  for (; nodes[n].layer->name() != "scale"; ++n) net->ForwardNode(n);
  double sum = 0;  // normalised, neither scaled nor cut
  for (const float x : Values(*net->FindBlob("x"))) sum += x;
  EXPECT_NEAR(sum, 0, 1e-3);
  net->set_debug_info(false);
  net->Forward();
  net->Backward();
}

TEST(FusedLayers, AreNotThoseWhoseBlobAnotherLayerReads) {
  BuiltNetOptions options = InPhase(caffe::TRAIN);
  const std::string text =
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }"
      "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'n' }"
      "layer { name: 'a' type: 'Scale' bottom: 'n' top: 'a' scale_param { filler { value: 3 } } }"
      "layer { name: 'b' type: 'Reduction' bottom: 'n' top: 'b' reduction_param { operation: "
      "ASUM } loss_weight: 1 }"
      "layer { name: 'c' type: 'Reduction' bottom: 'a' top: 'c' reduction_param { operation: "
      "ASUM } }";
  TestNet net(text, options);
  FillRandom(net->FindBlob("x"), 3);
  net->Forward();
  float n = 0, a = 0;
  for (const float x : Values(*net->FindBlob("n"))) n += std::abs(x);
  for (const float x : Values(*net->FindBlob("a"))) a += std::abs(x);
  EXPECT_NEAR(a, 3 * n, 1e-4);
}

TEST(FusedLayers, ComputeOnAnyDeviceAsOnTheHost) {
  for (const FakeMode mode : {FakeMode::kAtOnce, FakeMode::kLate, FakeMode::kThread}) {
    for (const Chain& chain : Chains()) {
      FakeDevice device({.mode = mode});
      BuiltNetOptions options = InPhase(caffe::TRAIN);
      options.layout = Layout::kPlain;
      const std::string text = FusedText(chain);
      SCOPED_TRACE(text);
      ExpectSame(Pass(text, device, options), Pass(text, HostDevice(), options));
    }
  }
}

// A layer with a bias and a ReLU in place behind it.
std::string WithRelu(const std::string& layer, const std::string& param, float slope) {
  return StrCat(
      "force_backward: true "
      "layer { name: 'in' type: 'Input' top: 'in' input_param { shape { dim: 3 dim: 4 dim: 5 dim: "
      "3 } } }"
      "layer { name: 'first' type: '",
      layer, "' bottom: 'in' top: 'x' ", param,
      " }"
      "layer { name: 'relu' type: 'ReLU' bottom: 'x' top: 'x' relu_param { negative_slope: ",
      slope,
      " } }"
      "layer { name: 'exp' type: 'Exp' bottom: 'x' top: 'y' exp_param { scale: 0.5 } loss_weight: 1"
      " }");
}

std::vector<std::string> NetsWithRelu() {
  const std::string filler =
      " weight_filler { type: 'xavier' } bias_filler { type: 'uniform' min: -1 max: 1 }";
  std::vector<std::string> nets;
  for (const float slope : {0.0f, 0.25f, -0.5f}) {
    for (const char* const rest : {"", "bias_term: false"}) {
      for (const int size : {1, 2}) {
        const std::string convolution = StrCat(
            "convolution_param { num_output: 5 kernel_size: ", size, filler, " ", rest, " }");
        nets.push_back(WithRelu("Convolution", convolution, slope));
        nets.push_back(WithRelu("Deconvolution", convolution, slope));
      }
      for (const int axis : {1, 3}) {  // 60 and 3 inputs
        nets.push_back(WithRelu(
            "InnerProduct",
            StrCat("inner_product_param { num_output: 7 axis: ", axis, filler, " ", rest, " }"),
            slope));
      }
    }
    nets.push_back(WithRelu("Convolution",
                            "param { } param { lr_mult: 0 } convolution_param { num_output: 4 "
                            "kernel_size: 2" +
                                filler + " }",
                            slope));
  }
  return nets;
}

TEST(FusedLayers, AddBiasesWithTheReluBehindThem) {
  for (const FakeMode mode : {FakeMode::kAtOnce, FakeMode::kLate}) {
    for (const std::string& text : NetsWithRelu()) {
      SCOPED_TRACE(text);
      FakeDevice device({.mode = mode});
      BuiltNetOptions options = InPhase(caffe::TRAIN);
      options.layout = Layout::kPlain;
      ExpectSame(Pass(text, device, options), Pass(text, HostDevice(), options));
    }
  }
}

// The smallest value that the first layer leaves in its top.
float SmallestOfFirst(const std::string& text, const BuiltNetOptions& given) {
  FakeDevice device;
  BuiltNetOptions options = given;
  options.device = &device;
  caffe::NetParameter param;
  SourceMap source;
  ParseText(text, "net.prototxt", &param, &source);
  BuiltNet net(param, source, options);
  Buffer weights(device.memory(), net.layout().size() * sizeof(float));
  net.BindWeights(weights.get<float>());
  net.FillWeights();
  Blob x(net.FindBlob("in")->shape());
  FillRandom(&x, 3);
  net.FindBlob("in")->CopyDataFromHost(x.data());
  for (size_t n = 0; n == 0 || net.nodes()[n - 1].layer->name() != "first"; ++n) net.ForwardNode(n);
  net.queue().Synchronize();
  const Blob& top = *net.FindBlob("x");
  Floats values(top.count());
  top.CopyDataToHost(values.data());
  return *std::min_element(values.begin(), values.end());
}

TEST(FusedLayers, TakeInAReluWhoseValuesHaveTheSignsOfItsBottom) {
  const std::string param =
      "convolution_param { num_output: 5 kernel_size: 1 weight_filler { type: 'xavier' } }";
  BuiltNetOptions options = InPhase(caffe::TRAIN);
  EXPECT_EQ(SmallestOfFirst(WithRelu("Convolution", param, 0), options), 0);
  const float steep = SmallestOfFirst(WithRelu("Convolution", param, -0.5f), options);
  EXPECT_LT(steep, 0);
  options.fuse = false;
  EXPECT_EQ(SmallestOfFirst(WithRelu("Convolution", param, 0), options), steep);
}

}  // namespace
}  // namespace millrace::test
