// Layers and update rules for the fake device: plain loops in place of kernels. Their shapes,
// parameters and coefficients are those of the generic classes.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "nn/layers/inner_product_layer.h"
#include "nn/layers/relu_layer.h"
#include "nn/layers/softmax_with_loss_layer.h"
#include "nn/layers/split_layer.h"
#include "solver/hogwild_update.h"
#include "solver/sgd.h"
#include "test/support/fake_device.h"

namespace millrace::test {
namespace {

class FakeInnerProduct : public InnerProductLayer {
 public:
  using InnerProductLayer::InnerProductLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    top[0]->Reshape(TopShape(bottom[0]->shape()));
    context_.scratch->Get(outputs_ * sizeof(float));  // reserve now, for Backward
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    const auto body = [rows = rows(*bottom[0]), inputs = inputs_, outputs = outputs_](
                          const float* x, const float* w, const float* bias, float* y) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < outputs; ++j) {
          double sum = bias ? bias[j] : 0;
          for (int64_t k = 0; k < inputs; ++k) sum += double{x[i * inputs + k]} * w[j * inputs + k];
          y[i * outputs + j] = static_cast<float>(sum);
        }
      }
    };
    EnqueueKernel(*context_.queue, body, static_cast<const float*>(bottom[0]->data()),
                  static_cast<const float*>(params_[0].blob->data()), Bias(), top[0]->data());
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    const int64_t rows = this->rows(*bottom[0]), inputs = inputs_, outputs = outputs_;
    const float *x = bottom[0]->data(), *dy = top[0]->diff(), *w = params_[0].blob->data();
    if (params_[0].wanted) {
      const auto body = [=, add = *params_[0].has_gradient](const float* x, const float* dy,
                                                            float* dw) {
        for (int64_t j = 0; j < outputs; ++j) {
          for (int64_t k = 0; k < inputs; ++k) {
            double sum = add ? dw[j * inputs + k] : 0;
            for (int64_t i = 0; i < rows; ++i) {
              sum += double{dy[i * outputs + j]} * x[i * inputs + k];
            }
            dw[j * inputs + k] = static_cast<float>(sum);
          }
        }
      };
      EnqueueKernel(*context_.queue, body, x, dy, params_[0].blob->diff());
    }
    if (bias_ && params_[1].wanted) {
      const auto body = [=, add = *params_[1].has_gradient](const float* dy, float* sums,
                                                            float* db) {
        for (int64_t j = 0; j < outputs; ++j) {
          double sum = 0;
          for (int64_t i = 0; i < rows; ++i) sum += dy[i * outputs + j];
          sums[j] = static_cast<float>(sum);
        }
        for (int64_t j = 0; j < outputs; ++j) db[j] = sums[j] + (add ? db[j] : 0);
      };
      auto* const sums = static_cast<float*>(context_.scratch->Get(outputs * sizeof(float)));
      EnqueueKernel(*context_.queue, body, dy, sums, params_[1].blob->diff());
    }
    if (!propagate_down[0]) return;
    const auto body = [=](const float* dy, const float* w, float* dx) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t k = 0; k < inputs; ++k) {
          double sum = 0;
          for (int64_t j = 0; j < outputs; ++j) {
            sum += double{dy[i * outputs + j]} * w[j * inputs + k];
          }
          dx[i * inputs + k] = static_cast<float>(sum);
        }
      }
    };
    EnqueueKernel(*context_.queue, body, dy, w, bottom[0]->diff());
  }

 private:
  const float* Bias() const { return bias_ ? params_[1].blob->data() : nullptr; }
};

class FakeRelu : public ReluLayer {
 public:
  using ReluLayer::ReluLayer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    const auto body = [count = bottom[0]->count(), slope = slope()](const float* x, float* y) {
      for (int64_t i = 0; i < count; ++i) y[i] = x[i] > 0 ? x[i] : slope * x[i];
    };
    EnqueueKernel(*context_.queue, body, static_cast<const float*>(bottom[0]->data()),
                  top[0]->data());
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    const auto body = [count = bottom[0]->count(), slope = slope()](const float* x, const float* dy,
                                                                    float* dx) {
      for (int64_t i = 0; i < count; ++i) dx[i] = x[i] > 0 ? dy[i] : slope * dy[i];
    };
    EnqueueKernel(*context_.queue, body, static_cast<const float*>(bottom[0]->data()),
                  static_cast<const float*>(top[0]->diff()), bottom[0]->diff());
  }
};

class FakeSplit : public SplitLayer {
 public:
  using SplitLayer::SplitLayer;

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    float* const sum = bottom[0]->diff();
    const int64_t count = bottom[0]->count();
    context_.queue->Fill(sum, 0, count * sizeof(float));
    for (const Blob* blob : top) {
      if (!blob->has_diff()) continue;
      const auto body = [count](const float* part, float* sum) {
        for (int64_t i = 0; i < count; ++i) sum[i] += part[i];
      };
      EnqueueKernel(*context_.queue, body, static_cast<const float*>(blob->diff()), sum);
    }
  }
};

// For classes along the last axis.
class FakeSoftmaxWithLoss : public SoftmaxWithLossLayer {
 public:
  using SoftmaxWithLossLayer::SoftmaxWithLossLayer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    const auto body = [rows = view_.outer, classes = view_.classes, z = Normalizer(view_.outer)](
                          const float* x, const float* labels, float* p, float* loss) {
      double total = 0;
      for (int64_t i = 0; i < rows; ++i, x += classes, p += classes) {
        const float largest = *std::max_element(x, x + classes);
        double sum = 0;
        for (int64_t c = 0; c < classes; ++c) sum += p[c] = std::exp(x[c] - largest);
        for (int64_t c = 0; c < classes; ++c) p[c] = static_cast<float>(p[c] / sum);
        total -= std::log(std::max(p[static_cast<int64_t>(labels[i])], FLT_MIN));
      }
      *loss = static_cast<float>(total / z);
    };
    EnqueueKernel(*context_.queue, body, static_cast<const float*>(bottom[0]->data()),
                  static_cast<const float*>(bottom[1]->data()), probability_.data(),
                  top[0]->data());
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    const auto body = [rows = view_.outer, classes = view_.classes, z = Normalizer(view_.outer)](
                          const float* p, const float* labels, const float* weight, float* dx) {
      const auto scale = static_cast<float>(*weight / z);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t c = 0; c < classes; ++c) {
          const bool is_label = c == static_cast<int64_t>(labels[i]);
          dx[i * classes + c] = scale * (p[i * classes + c] - (is_label ? 1.0f : 0.0f));
        }
      }
    };
    EnqueueKernel(*context_.queue, body, static_cast<const float*>(probability_.data()),
                  static_cast<const float*>(bottom[1]->data()),
                  static_cast<const float*>(top[0]->diff()), bottom[0]->diff());
  }
};

class FakeSgd final : public SgdRule {
 public:
  explicit FakeSgd(const UpdateContext& context) : SgdRule(context) {}

 protected:
  void Step(const SgdStep& step, bool l1, const UpdateParam& of, const float* gradients,
            float* weights) override {
    const int64_t offset = of.offset;
    const auto body = [step, l1, count = of.count](const float* g, float* h, float* w) {
      (l1 ? HogwildUpdateSgdL1 : HogwildUpdateSgdL2)(step, count, g, h, w, BestSimd());
    };
    EnqueueKernel(queue(), body, gradients + offset, history(0) + offset, weights + offset);
  }
  double SumOfSquares(int64_t count, const float* gradients) override {
    double sum = 0;
    EnqueueKernel(
        queue(), [&sum, count](const float* g) { sum = millrace::SumOfSquares(count, g); },
        gradients);
    queue().Synchronize();
    return sum;
  }
};

const RegisterLayer<FakeInnerProduct> inner_product("InnerProduct", kFakeDevice);
const RegisterLayer<FakeRelu> relu("ReLU", kFakeDevice);
const RegisterLayer<FakeSplit> split("Split", kFakeDevice);
const RegisterLayer<FakeSoftmaxWithLoss> loss("SoftmaxWithLoss", kFakeDevice);
const RegisterUpdateRule<FakeSgd> sgd("SGD", kFakeDevice), nesterov("Nesterov", kFakeDevice);

}  // namespace
}  // namespace millrace::test
