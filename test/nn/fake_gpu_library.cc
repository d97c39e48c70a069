// The libraries of the fake device: matrix products and convolutions as plain loops, and the
// kernels of all layers and update rules.
#include <algorithm>
#include <cstring>

#include "nn/gpu/gpu_library.h"
#include "nn/layers/activation/dropout_kernels.h"
#include "nn/layers/activation/relu_kernels.h"
#include "nn/layers/activation/softmax_kernels.h"
#include "nn/layers/elementwise/bias_kernels.h"
#include "nn/layers/norm/lrn_kernels.h"
#include "nn/layers/pooling/pooling_kernels.h"
#include "nn/layers/utility/split_kernels.h"
#include "nn/layers/write_number_kernels.h"
#include "solver/param_rows.h"
#include "test/support/fake_gpu.h"

namespace millrace::test {
namespace {

// Calls visit(position in the bottom, in the weights, in the top) for each product of the formula
// in convolution_layer.h.
template <typename Visit>
void ForEachProduct(const ConvolutionProblem& p, Visit visit) {
  const int64_t in = p.channels / p.group, out = p.outputs / p.group;
  for (int64_t n = 0; n < p.images; ++n) {
    for (int64_t o = 0; o < p.outputs; ++o) {
      for (int64_t c = 0; c < in; ++c) {
        const int64_t plane = (n * p.channels + o / out * in + c) * p.height;
        for (int64_t i = 0; i < p.kernel[0]; ++i) {
          for (int64_t j = 0; j < p.kernel[1]; ++j) {
            const int64_t weight = ((o * in + c) * p.kernel[0] + i) * p.kernel[1] + j;
            for (int64_t y = 0; y < p.out_height; ++y) {
              const int64_t row = y * p.stride[0] - p.pad[0] + i * p.dilation[0];
              if (row < 0 || row >= p.height) continue;
              for (int64_t x = 0; x < p.out_width; ++x) {
                const int64_t column = x * p.stride[1] - p.pad[1] + j * p.dilation[1];
                if (column < 0 || column >= p.width) continue;
                visit((plane + row) * p.width + column, weight,
                      ((n * p.outputs + o) * p.out_height + y) * p.out_width + x);
              }
            }
          }
        }
      }
    }
  }
}

// Reads a weight, which an exchange's kernel may write meanwhile: by design
// (test/support/tsan.supp).
#ifdef __SANITIZE_THREAD__
__attribute__((noinline))
#endif
float HogwildReadWeight(const float* weight) {
  return *weight;
}

// Needs, and overwrites, a workspace of which a library may want any size.
class FakeConvolution : public ConvolutionPlan {
 public:
  FakeConvolution(const ConvolutionProblem& problem, Queue& queue) : p_(problem), queue_(queue) {}

  size_t workspace_bytes() const override { return 64 * p_.outputs; }
  void Forward(const float* bottom, const float* weights, float* top, void* workspace) override {
    const auto body = [p = p_](const float* bottom, const float* weights, float* top) {
      std::fill_n(top, p.images * p.outputs * p.out_height * p.out_width, 0.0f);
      ForEachProduct(p, [&](int64_t b, int64_t w, int64_t t) {
        top[t] += bottom[b] * HogwildReadWeight(&weights[w]);
      });
    };
    Scribble(workspace);
    EnqueueKernel(queue_, body, bottom, weights, top);
  }
  void BackwardData(const float* top_diff, const float* weights, float* bottom_diff,
                    void* workspace) override {
    const auto body = [p = p_](const float* top_diff, const float* weights, float* bottom_diff) {
      std::fill_n(bottom_diff, p.images * p.channels * p.height * p.width, 0.0f);
      ForEachProduct(p, [&](int64_t b, int64_t w, int64_t t) {
        bottom_diff[b] += top_diff[t] * HogwildReadWeight(&weights[w]);
      });
    };
    Scribble(workspace);
    EnqueueKernel(queue_, body, top_diff, weights, bottom_diff);
  }
  void BackwardWeights(const float* bottom, const float* top_diff, bool add, float* weight_diff,
                       void* workspace) override {
    const auto body = [p = p_, add](const float* bottom, const float* top_diff,
                                    float* weight_diff) {
      const int64_t count = p.outputs * p.channels / p.group * p.kernel[0] * p.kernel[1];
      if (!add) std::fill_n(weight_diff, count, 0.0f);
      ForEachProduct(
          p, [&](int64_t b, int64_t w, int64_t t) { weight_diff[w] += top_diff[t] * bottom[b]; });
    };
    Scribble(workspace);
    EnqueueKernel(queue_, body, bottom, top_diff, weight_diff);
  }

 private:
  void Scribble(void* workspace) {
    EnqueueKernel(
        queue_, [n = workspace_bytes()](std::byte* bytes) { std::memset(bytes, 0x5a, n); },
        static_cast<std::byte*>(workspace));
  }

  const ConvolutionProblem p_;
  Queue& queue_;
};

class FakeLibrary : public GpuLibrary {
 public:
  explicit FakeLibrary(Queue& queue) : queue_(queue) {}

  void Multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                const float* b, bool add, float* c) override {
    const auto body = [=](const float* a, const float* b, float* c) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = add ? c[i * n + j] : 0;
          for (int64_t l = 0; l < k; ++l) {
            sum += double{a[transpose_a ? l * m + i : i * k + l]} *
                   HogwildReadWeight(&b[transpose_b ? j * k + l : l * n + j]);
          }
          c[i * n + j] = static_cast<float>(sum);
        }
      }
    };
    EnqueueKernel(queue_, body, a, b, c);
  }
  // Only for even k: a library may lack shapes.
  bool MultiplyWithBias(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                        const float* a, const float* b, const float* bias, float* c) override {
    if (k % 2 != 0) return false;
    Multiply(transpose_a, transpose_b, m, n, k, a, b, false, c);
    EnqueueKernel(
        queue_,
        [=](const float* bias, float* c) {
          for (int64_t i = 0; i < m * n; ++i) c[i] += HogwildReadWeight(&bias[i % n]);
        },
        bias, c);
    return true;
  }
  std::unique_ptr<ConvolutionPlan> PlanConvolution(const ConvolutionProblem& problem,
                                                   KeptInput) override {
    return std::make_unique<FakeConvolution>(problem, queue_);
  }

 private:
  Queue& queue_;
};

const RegisterGpuLibrary library(kFakeDevice,
                                 [](Queue& queue) { return std::make_unique<FakeLibrary>(queue); });
const RegisterFakeKernels<
    MapOfChannels<BiasForward>, SumsOfChannels<BiasGradient>, MapOfChannels<BiasReluForward>,
    SumsOfChannels<BiasReluGradient>, DropoutMask, LrnForward, LrnBackward, MaxPoolForward,
    MaxPoolBackward, AveragePoolTop, AveragePoolBottom, ReluForward, ReluBackward, SoftmaxForward,
    SoftmaxBackward, LossOfPositions, RightPositions, MeanOfPositions, MeanOfClasses,
    SoftmaxLossBackward, SplitAdd, UpdateOfRows<SgdUpdate>, SquaresOfRows, ClipBySquares,
    WriteNumber<UpdateNumbers>>
    kernels;

}  // namespace
}  // namespace millrace::test
