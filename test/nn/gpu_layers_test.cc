// Layers on GPUs against the same layers on the host: values and gradients of whole nets, on the
// fake device and on the GPUs of this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "nn/gpu/gpu_library.h"
#include "test/nn/gpu_cases.h"
#include "test/nn/net_support.h"
#include "test/support/cuda_devices.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using Floats = std::vector<float>;

// A net on a device, with the same weights and inputs on each.
class Subject {
 public:
  Subject(const std::string& text, Device& device, caffe::Phase phase, bool to_input = true) {
    caffe::NetParameter param;
    SourceMap source;
    ParseText((to_input ? "force_backward: true\n" : "") + text, "net.prototxt", &param, &source);
    BuiltNetOptions options = InPhase(phase);
    options.device = &device;
    options.layout = Layout::kPlain;
    net_ = std::make_unique<BuiltNet>(param, source, options);
    weights_ = Buffer(device.memory(), (net_->layout().size() + 1) * sizeof(float));
    device.memory().Fill(weights_.get(), 0, weights_.bytes());
    net_->BindWeights(weights_.get<float>());
    net_->FillWeights();
  }

  // Labels are whole numbers below `classes`; other inputs have distinct random values.
  void SetInputs(int classes, uint64_t seed) {
    net_->queue().Synchronize();
    uint64_t number = 0;
    for (const BuiltNet::Node& node : net_->nodes()) {
      if (node.layer->type() != "Input") continue;
      for (size_t i = 0; i < node.top.size(); ++i) {
        Rng rng(seed, {number++});
        Floats values(node.top[i]->count());
        const bool labels = node.top_names[i].starts_with("label");
        for (float& value : values) {
          value = labels ? static_cast<float>(rng.Below(classes)) : rng.Gaussian();
        }
        node.top[i]->CopyDataFromHost(values.data());
      }
    }
  }
  float Pass(uint64_t number) {
    net_->set_pass(number);
    net_->EnqueueForward();
    net_->Backward();
    const float loss = net_->Loss();
    net_->queue().Synchronize();
    return loss;
  }
  Floats Gradients() { return OnHost(net_->gradients(), net_->layout().size()); }
  BuiltNet& net() { return *net_; }
  float* weights() { return weights_.get<float>(); }
  Floats OnHost(const float* from, int64_t count) {
    Floats values(count);
    net_->device().memory().CopyToHost(values.data(), from, count * sizeof(float));
    return values;
  }

 private:
  Buffer weights_;
  std::unique_ptr<BuiltNet> net_;
};

void ExpectNear(const Floats& actual, const Floats& expected, float tolerance,
                const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  float largest = 1;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << what << " " << i;
  }
}

std::string Dims(const std::string& shape) {
  std::string dims;
  std::istringstream in(shape);
  for (int dim; in >> dim;) dims += StrCat(" dim: ", dim);
  return dims;
}

// The layers between an input and a loss of 5 classes.
std::string NetOf(const GpuCase& each) {
  std::string text =
      "layer { name: 'in' type: 'Input' top: 'x' top: 'label' input_param {"
      "  shape {" +
      Dims(each.shape) + " }";
  text += " shape {" + Dims(each.shape.substr(0, each.shape.find(' '))) + " } } }\n" + each.layers;
  if (each.layers.find("'loss'") != std::string::npos) return text;
  return text +
         "layer { name: 'scores' type: 'InnerProduct' bottom: 'y' top: 'scores'"
         "  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' top: 'l' }";
}

std::vector<GpuCase> Cases() {
  const std::string filler =
      "weight_filler { type: 'gaussian' std: 0.3 }"
      " bias_filler { type: 'uniform' }";
  const auto convolution = [&](const std::string& param) {
    return LayerText("Convolution", "convolution_param { " + param + " " + filler + " }");
  };
  const auto pooling = [](const std::string& param) {
    return LayerText("Pooling", "pooling_param { " + param + " }");
  };
  return {
      {"Relu", LayerText("ReLU", "")},
      {"LeakyRelu", LayerText("ReLU", "relu_param { negative_slope: 0.2 }")},
      {"NegativeReluInPlace",
       convolution("num_output: 4 kernel_size: 3") +
           LayerText("ReLU", "relu_param { negative_slope: -0.5 }", "y", "y")},
      {"ReluInPlace",
       convolution("num_output: 4 kernel_size: 3") + LayerText("ReLU", "", "y", "y")},
      {"Dropout", LayerText("Dropout", "dropout_param { dropout_ratio: 0.4 }")},
      {"DropoutOfAll", LayerText("Dropout", "dropout_param { dropout_ratio: 1 }")},
      {"DropoutUnscaled", LayerText("Dropout", "dropout_param { scale_train: false }")},
      {"DropoutScaledInTest",
       LayerText("Dropout", "dropout_param { dropout_ratio: 0.3 scale_train: false }"), "4 6 7 9",
       caffe::TEST},
      {"DropoutSampledInTest", LayerText("Dropout", "dropout_param { sample_weights_test: true }"),
       "4 6 7 9", caffe::TEST},
      {"DropoutInTest", LayerText("Dropout", ""), "4 6 7 9", caffe::TEST},
      {"Convolution", convolution("num_output: 8 kernel_size: 3")},
      {"ConvolutionOfGroups",
       convolution("num_output: 4 kernel_size: 3 group: 2 pad: 1 stride: 2")},
      {"ConvolutionOblong",
       convolution("num_output: 3 kernel_h: 2 kernel_w: 5 pad_h: 1 pad_w: 2 stride_h: 2 stride_w: "
                   "3 dilation: 2")},
      {"ConvolutionLargerThanItsBottom", convolution("num_output: 3 kernel_size: 9 stride: 3")},
      {"ConvolutionWithoutBias", convolution("num_output: 5 kernel_size: 1 bias_term: false ")},
      {"ConvolutionOfTwoBottoms",
       "layer { name: 'c' type: 'Convolution' bottom: 'x' bottom: 'x' top: 'a' top: 'b'"
       "  convolution_param { num_output: 3 kernel_size: 3 " +
           filler +
           " } }"
           "layer { name: 'pa' type: 'InnerProduct' bottom: 'a' top: 'y' inner_product_param {"
           "  num_output: 5 weight_filler { type: 'xavier' } } }"
           "layer { name: 'pb' type: 'InnerProduct' bottom: 'b' top: 'z' inner_product_param {"
           "  num_output: 5 weight_filler { type: 'xavier' } } }"
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'l' }"
           "layer { name: 'l2' type: 'SoftmaxWithLoss' bottom: 'z' bottom: 'label' top: 'l2'"
           "  loss_weight: 0.3 }"},
      {"MaxPooling", pooling("kernel_size: 3 stride: 2")},
      {"MaxPoolingPadded", pooling("kernel_size: 3 stride: 2 pad: 1")},
      {"MaxPoolingOblong", pooling("kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2")},
      {"MaxPoolingBeyondTheBottom",
       LayerText("Pooling", "pooling_param { kernel_size: 1 stride: 3 }", "x", "p") +
           LayerText("Clip", "clip_param { min: -9 max: 9 }", "p")},
      {"AveragePoolingBeyondTheBottom", pooling("pool: AVE kernel_size: 1 stride: 4")},
      {"AveragePooling", pooling("pool: AVE kernel_size: 3 stride: 2")},
      {"AveragePoolingPadded", pooling("pool: AVE kernel_size: 3 stride: 2 pad: 2")},
      {"AveragePoolingOfAll", pooling("pool: AVE global_pooling: true")},
      {"LrnAcross", LayerText("LRN", "lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 k: 2 }")},
      {"LrnWithin",
       LayerText("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }")},
      {"LrnInPlace", convolution("num_output: 4 kernel_size: 3") +
                         LayerText("LRN", "lrn_param { local_size: 3 alpha: 0.5 k: 2 }", "y", "y") +
                         LayerText("ReLU", "", "y", "y")},
      {"LrnWithinInPlace",
       convolution("num_output: 4 kernel_size: 3") +
           LayerText("LRN",
                     "lrn_param { local_size: 3 alpha: 0.5 k: 2 norm_region: WITHIN_CHANNEL }", "y",
                     "y")},
      {"InnerProduct",
       LayerText("InnerProduct", "inner_product_param { num_output: 7 " + filler + "}")},
      {"InnerProductOfUnitRows",
       LayerText("InnerProduct",
                 "inner_product_param { num_output: 7 normalize: true " + filler + "}")},
      {"InnerProductTransposed",
       LayerText("InnerProduct",
                 "inner_product_param { num_output: 7 transpose: true " + filler + "}")},
      {"InnerProductOfAxis2",
       LayerText("InnerProduct", "inner_product_param { num_output: 3 axis: 2 " + filler + "}")},
      {"Softmax", LayerText("Softmax", "")},
      {"SoftmaxInPlace", convolution("num_output: 4 kernel_size: 3") +
                             LayerText("Softmax", "softmax_param { axis: -1 }", "y", "y")},
      {"SharedWeights",
       LayerText("InnerProduct",
                 "param { name: 'w' } inner_product_param { num_output: 6 "
                 "bias_term: false axis: 3 " +
                     filler + " }") +
           "layer { name: 'again' type: 'InnerProduct' bottom: 'x' top: 'z' param { name: 'w' }"
           "  inner_product_param { num_output: 6 axis: 3 bias_term: false } }"
           "layer { name: 'zs' type: 'InnerProduct' bottom: 'z' top: 'z5' inner_product_param {"
           "  num_output: 5 weight_filler { type: 'xavier' } } }"
           "layer { name: 'zl' type: 'SoftmaxWithLoss' bottom: 'z5' bottom: 'label' top: 'zl' }"},
      {"LossPerPosition",
       "layer { name: 'more' type: 'Input' top: 'labels' input_param {"
       " shape { dim: 4 dim: 1 dim: 7 dim: 9 } } }"
       "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'labels' top: 'l'"
       " top: 'p' loss_weight: 0.7 loss_weight: 0 loss_param { ignore_label: 2 } }"},
      {"LossWithClassWeights",
       "layer { name: 'more' type: 'Input' top: 'labels' input_param {"
       " shape { dim: 4 dim: 1 dim: 7 dim: 9 } } }"
       "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'labels' top: 'l'"
       " loss_param { ignore_label: 2 weight_by_label_freqs: true"
       " class_weighting: [0.5, 1, 2, 0, 1.5, 3] } }"},
      {"LossWithTheLossOfEachPosition",
       "layer { name: 'more' type: 'Input' top: 'labels' input_param {"
       " shape { dim: 4 dim: 1 dim: 7 dim: 9 } } }"
       "layer { name: 'loss' type: 'SoftmaxWithLossOHEM' bottom: 'x' bottom: 'labels' top: 'l'"
       " top: 'p' top: 'each' loss_param { ignore_label: 2 normalization: PRE_FIXED"
       " pre_fixed_normalizer: 11 } }"},
      {"LossOfBatch",
       "layer { name: 'more' type: 'Input' top: 'labels' input_param {"
       " shape { dim: 4 dim: 1 dim: 7 dim: 9 } } }"
       "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'labels' top: 'l'"
       " loss_param { normalization: BATCH_SIZE } }"},
      {"Accuracy",
       "layer { name: 'more' type: 'Input' top: 'labels' input_param {"
       " shape { dim: 4 dim: 1 dim: 7 dim: 9 } } }"
       "layer { name: 'a' type: 'Accuracy' bottom: 'x' bottom: 'labels' top: 'a' top: 'c'"
       " accuracy_param { top_k: 2 ignore_label: 1 } }"
       "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'labels' top: 'l' }"},
      {"AlexNetLike",
       LayerText("Convolution", "convolution_param { num_output: 8 kernel_size: 3 " + filler + " }",
                 "x", "c") +
           LayerText("ReLU", "", "c", "c") +
           LayerText("LRN", "lrn_param { local_size: 3 }", "c", "n") +
           LayerText("Pooling", "pooling_param { kernel_size: 3 stride: 2 }", "n", "p") +
           LayerText("Dropout", "", "p", "y")},
  };
}

const RegisterGpuCases registered(Cases());

class GpuLayers : public testing::TestWithParam<GpuCase> {
 protected:
  // Compares three passes, of which the last adds to the gradients of the second.
  static void Compare(Device& device, float tolerance) {
    const GpuCase& each = GetParam();
    Subject host(NetOf(each), HostDevice(), each.phase, each.to_input);
    Subject gpu(NetOf(each), device, each.phase, each.to_input);
    EXPECT_EQ(gpu.OnHost(gpu.weights(), gpu.net().layout().size()),
              host.OnHost(host.weights(), host.net().layout().size()));
    for (int pass = 0; pass < 3; ++pass) {
      SCOPED_TRACE(pass);
      for (Subject* subject : {&host, &gpu}) {
        if (pass < 2) subject->net().ClearGradients();
        subject->SetInputs(5, Seed() + pass);
      }
      const float expected = host.Pass(pass);
      EXPECT_NEAR(gpu.Pass(pass), expected, tolerance * (1 + std::abs(expected)));
      ExpectNear(gpu.Gradients(), host.Gradients(), tolerance, "gradient");
      ExpectNear(gpu.net().OutputValues(), host.net().OutputValues(), tolerance, "output");
      for (size_t i = 0; i < host.net().nodes().size(); ++i) {
        const BuiltNet::Node &a = gpu.net().nodes()[i], &b = host.net().nodes()[i];
        ASSERT_EQ(a.layer->name(), b.layer->name());
        for (size_t j = 0; j < b.top.size(); ++j) {
          const std::string what = b.layer->name() + " top " + b.top_names[j];
          ExpectNear(ValuesOf(*a.top[j]), ValuesOf(*b.top[j]), tolerance, what);
          if (!b.top[j]->has_diff() || !b.need_backward) continue;
          ExpectNear(DiffsOf(*a.top[j]), DiffsOf(*b.top[j]), tolerance, what + " diff");
        }
      }
      if (!each.to_input) continue;
      const Blob &a = *gpu.net().FindBlob("x"), &b = *host.net().FindBlob("x");
      ExpectNear(DiffsOf(a), DiffsOf(b), tolerance, "diff of the input");
    }
  }

 private:
  static Floats ValuesOf(const Blob& blob) {
    Floats values(blob.count());
    blob.CopyDataToHost(values.data());
    return values;
  }
  static Floats DiffsOf(const Blob& blob) {
    Floats values(blob.count());
    blob.CopyDiffToHost(values.data());
    return values;
  }
};

TEST_P(GpuLayers, AgreeWithTheHost) {
  for (const FakeMode mode : {FakeMode::kAtOnce, FakeMode::kLate, FakeMode::kThread}) {
    FakeDevice device({.mode = mode});
    Compare(device, 1e-5f);
  }
}

// Needs a GPU.
TEST_P(GpuLayers, AgreeWithTheHostOnCuda) {
  for (const int ordinal : CudaOrdinals()) {
    RequireCudaDevice(ordinal);
    if (IsSkipped() || HasFatalFailure()) return;
    Compare(DeviceRegistry::Get().Find(DeviceType::kCuda, ordinal), 2e-4f);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuLayers, testing::ValuesIn(GpuCases()),
                         [](const testing::TestParamInfo<GpuCase>& info) {
                           return info.param.name;
                         });

TEST(GpuLabels, AreCheckedWhenTheWorkIsDone) {
  for (const char* type : {"SoftmaxWithLoss", "Accuracy", "HingeLoss", "FocalLoss"}) {
    FakeDevice device({.mode = FakeMode::kLate});
    const std::string text = StrCat(
        "layer { name: 'in' type: 'Input' top: 'x' top: 'label' input_param {"
        " shape { dim: 3 dim: 4 } shape { dim: 3 } } }\n",
        "layer { name: 'judge' type: '", type, "' bottom: 'x' bottom: 'label' top: 'r' }");
    Subject host(text, HostDevice(), caffe::TEST), gpu(text, device, caffe::TEST);
    const Floats labels = {0, 7, std::numeric_limits<float>::quiet_NaN()};
    for (Subject* subject : {&host, &gpu}) {
      subject->SetInputs(4, Seed());
      subject->net().FindBlob("label")->CopyDataFromHost(labels.data());
    }
    const std::string expected = ErrorOf([&] { host.net().Forward(); });
    EXPECT_CONTAINS(expected, "7");
    gpu.net().EnqueueForward();  // does not know yet
    EXPECT_EQ(ErrorOf([&] { gpu.net().Loss(); }), expected);
    gpu.SetInputs(4, Seed());  // the error ends with its cause
    gpu.net().Forward();
  }
}

TEST(GpuLibraryTest, IsMadeOncePerQueue) {
  FakeDevice device;
  const auto first = device.MakeQueue(QueuePriority::kNormal);
  const auto second = device.MakeQueue(QueuePriority::kNormal);
  EXPECT_EQ(&GpuLibraryOf(*first), &GpuLibraryOf(*first));
  EXPECT_NE(&GpuLibraryOf(*first), &GpuLibraryOf(*second));
  EXPECT_EQ(ErrorOf([] { GpuLibraryOf(HostQueue()); }), "cpu: this build has no GPU code");
}

}  // namespace
}  // namespace millrace::test
