// Gradients of nets on devices against numerical derivatives of their loss on the same device.
//
// The derivative by an element is estimated by central differences with the steps h and h/2 and
// Richardson extrapolation. Elements near a kink of the loss (of ReLU, of maxima) are skipped, as
// in test/support/gradient_checker.h.
#include <cmath>
#include <utility>

#include "base/rng.h"
#include "millrace/layer.h"
#include "nn/net.h"
#include "test/gpu/gpu_support.h"
#include "test/nn/net_support.h"

namespace millrace::test {
namespace {

using Floats = std::vector<float>;

constexpr int kSamples = 40;
constexpr float kStep = 0.04f;
constexpr double kRounding = 4e-7;  // of a loss between 0.1 and 5

struct Case {
  const char* name;
  const char* layers;  // from "x", {4, 6, 7, 9}, to "y"
};
const Case kCases[] = {
    {"Convolution",
     "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'y' convolution_param { num_output: 4"
     "  kernel_size: 3 stride: 2 pad: 1 group: 2 weight_filler { type: 'gaussian' std: 0.3 } } }"},
    {"Deconvolution",
     "layer { name: 'd' type: 'Deconvolution' bottom: 'x' top: 'y' convolution_param {"
     "  num_output: 2 kernel_size: 2 stride: 2 bias_term: false weight_filler { type: 'gaussian' "
     "std: 0.3 } } }"},
    {"InnerProduct",
     "layer { name: 'p' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param {"
     "  num_output: 7 weight_filler { type: 'gaussian' std: 0.1 } } }"},
    {"BatchNormAndScale",
     "layer { name: 'b' type: 'BatchNorm' bottom: 'x' top: 'n' }"
     "layer { name: 's' type: 'Scale' bottom: 'n' top: 'y' scale_param { bias_term: true"
     "  filler { type: 'uniform' min: 0.5 max: 1.5 } } }"},
    {"Lrn",
     "layer { name: 'l' type: 'LRN' bottom: 'x' top: 'y' lrn_param { local_size: 3"
     "  alpha: 0.5 } }"},
    {"AveragePooling",
     "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'y' pooling_param { pool: AVE"
     "  kernel_size: 3 stride: 2 pad: 1 } }"},
    {"MaxPoolingAndRelu",
     "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'm' pooling_param { kernel_size: 3"
     "  stride: 2 } }"
     "layer { name: 'r' type: 'ReLU' bottom: 'm' top: 'y' relu_param { negative_slope: 0.2 } }"},
    {"Prelu", "layer { name: 'r' type: 'PReLU' bottom: 'x' top: 'y' }"},
    {"SigmoidAndTanh",
     "layer { name: 's' type: 'Sigmoid' bottom: 'x' top: 's' }"
     "layer { name: 't' type: 'TanH' bottom: 'x' top: 't' }"
     "layer { name: 'e' type: 'Eltwise' bottom: 's' bottom: 't' top: 'y'"
     "  eltwise_param { operation: PROD } }"},
    {"Softmax", "layer { name: 's' type: 'Softmax' bottom: 'x' top: 'y' }"},
};

// A net between an input and a loss of 5 classes, on a device.
class Subject {
 public:
  Subject(const Case& each, Device& device) {
    const std::string text = StrCat(
        "force_backward: true layer { name: 'in' type: 'Input' top: 'x' top: 'label' input_param {"
        "  shape { dim: 4 dim: 6 dim: 7 dim: 9 } shape { dim: 4 } } }",
        each.layers,
        "layer { name: 'scores' type: 'InnerProduct' bottom: 'y' top: 'scores'"
        "  inner_product_param { num_output: 5 weight_filler { type: 'gaussian' std: 0.2 } } }"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' top: 'l' }");
    caffe::NetParameter param;
    SourceMap source;
    ParseText(text, "net.prototxt", &param, &source);
    BuiltNetOptions options = InPhase(caffe::TRAIN);
    options.device = &device;
    options.layout = Layout::kPlain;
    net_ = std::make_unique<BuiltNet>(param, source, options);
    weights_ = Buffer(device.memory(), net_->layout().size() * sizeof(float));
    device.memory().Fill(weights_.get(), 0, weights_.bytes());
    net_->BindWeights(weights_.get<float>());
    net_->FillWeights();
    Rng rng(Seed(), {1});
    Floats values(Input().count());
    for (float& value : values) value = rng.Gaussian();
    Input().CopyDataFromHost(values.data());
    const Floats labels = {0, 3, 1, 4};
    net_->FindBlob("label")->CopyDataFromHost(labels.data());
  }

  Blob& Input() { return *net_->FindBlob("x"); }
  double Loss() {
    net_->EnqueueForward();
    const double loss = net_->Loss();
    net_->queue().Synchronize();
    return loss;
  }
  void Backward() {
    net_->ClearGradients();
    net_->EnqueueForward();
    net_->Backward();
    net_->queue().Synchronize();
  }
  Floats Read(const float* from, int64_t count) {
    Floats values(count);
    net_->device().memory().CopyToHost(values.data(), from, count * sizeof(float));
    return values;
  }
  void Write(float* to, float value) {
    net_->device().memory().CopyFromHost(to, &value, sizeof(value));
  }
  // The loss with another value at `at`.
  double LossWith(float* at, float value) {
    const float old = Read(at, 1)[0];
    Write(at, value);
    const double loss = Loss();
    Write(at, old);
    return loss;
  }
  BuiltNet& net() { return *net_; }
  float* weights() { return weights_.get<float>(); }

 private:
  Buffer weights_;
  std::unique_ptr<BuiltNet> net_;
};

// Compares sampled elements of `gradients` with derivatives by the values at `values`.
void Check(Subject* subject, float* values, const Floats& gradients, const std::string& what) {
  float largest = 0;
  for (const float gradient : gradients) largest = std::max(largest, std::abs(gradient));
  ASSERT_GT(largest, 0) << what;
  const Floats before = subject->Read(values, static_cast<int64_t>(gradients.size()));
  Rng rng(Seed(), {2});
  int kinks = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    const size_t i = rng.Below(gradients.size());
    const double loss = subject->Loss();
    // The slope of the loss, and by how much that above differs from that below.
    const auto slopes = [&](float step) {
      const double up = (subject->LossWith(values + i, before[i] + step) - loss) / step;
      const double down = (loss - subject->LossWith(values + i, before[i] - step)) / step;
      return std::pair((up + down) / 2, up - down);
    };
    const auto [wide, wide_jump] = slopes(kStep);
    const auto [narrow, narrow_jump] = slopes(kStep / 2);
    const double tolerance = 5e-3 * largest + 2 * kRounding / kStep;
    // Where the loss is smooth, the slopes agree, and the jump halves with the step.
    if (std::abs(wide - narrow) > tolerance / 2 ||
        std::abs(narrow_jump - wide_jump / 2) > tolerance / 2) {
      ++kinks;
      continue;
    }
    EXPECT_NEAR(gradients[i], (4 * narrow - wide) / 3, tolerance) << what << " " << i;
  }
  EXPECT_LE(kinks, kSamples / 2) << what;
}

class Gradients : public OnChosenDevice {};

TEST_P(Gradients, AreThoseOfTheLoss) {
  for (const Case& each : kCases) {
    SCOPED_TRACE(each.name);
    Subject subject(each, first());
    subject.Backward();
    const int64_t size = subject.net().layout().size();
    const Floats weights = subject.Read(subject.net().gradients(), size);
    const Floats input = subject.Read(subject.Input().diff(), subject.Input().count());
    Check(&subject, subject.Input().data(), input, "input");
    for (const ParamEntry& entry : subject.net().layout().entries()) {
      const auto begin = weights.begin() + entry.offset;
      const Floats own(begin, begin + entry.count);
      // Statistics have no gradient.
      if (std::all_of(own.begin(), own.end(), [](float value) { return value == 0; })) continue;
      Check(&subject, subject.weights() + entry.offset, own, StrCat("weights at ", entry.offset));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Gradients, testing::ValuesIn(DeviceChoices()), DeviceChoiceName);

}  // namespace
}  // namespace millrace::test
