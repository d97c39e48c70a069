#include "nn/gpu/cuda_bfloat16_convolution.h"

#include <glog/logging.h>

#include <algorithm>

#include "device/kernel.h"
#include "nn/gpu/bfloat16_kernels.h"
#include "nn/gpu/cuda_convolution.h"

namespace millrace::inline nn {
namespace {

constexpr ConvolutionArithmetic kBfloat16{"bf16", CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH};
constexpr ConvolutionArithmetic kTf32{"tf32", CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH};

// Copies begin at multiples of so many bytes, as cuDNN's fastest algorithms need.
constexpr size_t kAlignment = 256;
size_t BytesOf(int64_t count) {
  return (count * sizeof(uint16_t) + kAlignment - 1) / kAlignment * kAlignment;
}

class Bfloat16Convolution final : public ConvolutionPlan {
 public:
  Bfloat16Convolution(const ConvolutionProblem& p, const CudnnContext& context)
      : problem_(p),
        context_(context),
        queue_(context.queue),
        bottom_(p.images * p.channels * p.height * p.width),
        weights_(p.outputs * (p.channels / p.group) * p.kernel[0] * p.kernel[1]),
        top_(p.images * p.outputs * p.out_height * p.out_width),
        copies_(BytesOf(bottom_) + BytesOf(weights_) + BytesOf(top_)),
        half_(p, kBfloat16, kMaxConvolutionWorkspace, context),
        workspace_bytes_(copies_ + half_.workspace_bytes()) {
    if (half_.has_forward() && half_.has_data() && half_.has_weights()) return;
    MakeFull(kMaxConvolutionWorkspace, context);
    workspace_bytes_ = std::max(workspace_bytes_, full_->workspace_bytes());
    if (!half_.has_forward()) Use(full_->has_forward(), "forward");
    if (!half_.has_data()) Use(full_->has_data(), "backward");
    if (!half_.has_weights()) Use(full_->has_weights(), "weight");
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }

  void Forward(const float* bottom, const float* weights, float* top, void* workspace) override {
    const Copies at = In(workspace);
    if (half_.has_forward()) {
      Narrow(bottom_, bottom, at.bottom);
      Narrow(weights_, weights, at.weights);
      if (half_.Forward(at.bottom, at.weights, at.top, at.workspace)) {
        return Widen(top_, at.top, false, top);
      }
      Use(Full().has_forward(), "forward");
    }
    RequireAlgorithm(queue_.device(), Full().Forward(bottom, weights, top, workspace), "forward");
  }

  void BackwardData(const float* top_diff, const float* weights, float* bottom_diff,
                    void* workspace) override {
    const Copies at = In(workspace);
    if (half_.has_data()) {
      Narrow(top_, top_diff, at.top);
      Narrow(weights_, weights, at.weights);
      if (half_.BackwardData(at.top, at.weights, at.bottom, at.workspace)) {
        return Widen(bottom_, at.bottom, false, bottom_diff);
      }
      Use(Full().has_data(), "backward");
    }
    RequireAlgorithm(queue_.device(),
                     Full().BackwardData(top_diff, weights, bottom_diff, workspace), "backward");
  }

  void BackwardWeights(const float* bottom, const float* top_diff, bool add, float* weight_diff,
                       void* workspace) override {
    const Copies at = In(workspace);
    if (half_.has_weights()) {
      Narrow(bottom_, bottom, at.bottom);
      Narrow(top_, top_diff, at.top);
      if (half_.BackwardWeights(at.bottom, at.top, false, at.weights, at.workspace)) {
        return Widen(weights_, at.weights, add, weight_diff);
      }
      Use(Full().has_weights(), "weight");
    }
    RequireAlgorithm(queue_.device(),
                     Full().BackwardWeights(bottom, top_diff, add, weight_diff, workspace),
                     "weight");
  }

 private:
  struct Copies {
    uint16_t *bottom, *weights, *top;
    void* workspace;  // of cuDNN
  };
  Copies In(void* workspace) const {
    auto* const bytes = static_cast<std::byte*>(workspace);
    const auto halves = [](std::byte* at) { return reinterpret_cast<uint16_t*>(at); };
    return {halves(bytes), halves(bytes + BytesOf(bottom_)),
            halves(bytes + BytesOf(bottom_) + BytesOf(weights_)), bytes + copies_};
  }

  void Narrow(int64_t count, const float* from, uint16_t* to) {
    Launch(queue_, count, NarrowToBfloat16{from, to});
  }
  void Widen(int64_t count, const uint16_t* from, bool add, float* to) {
    Launch(queue_, count, WidenFromBfloat16{add, from, to});
  }

  void MakeFull(size_t max_workspace, const CudnnContext& context) {
    full_ = std::make_unique<ConvolutionPasses>(problem_, kTf32, max_workspace, context);
  }
  // In the workspace that there is, when an algorithm has refused its work. The cache has the
  // choices of plans that may take more.
  ConvolutionPasses& Full() {
    if (!full_) {
      CudnnContext uncached = context_;
      uncached.cache = nullptr;
      uncached.measure = nullptr;  // passes allocate nothing
      MakeFull(workspace_bytes_, uncached);
    }
    return *full_;
  }
  void Use(bool found, const char* pass) {
    RequireAlgorithm(queue_.device(), found, pass);
    LOG(INFO) << queue_.device().name() << ": cuDNN has no algorithm in bfloat16 for the " << pass
              << " pass of a convolution of " << problem_.channels << " channels, "
              << problem_.outputs << " outputs, kernel " << problem_.kernel[0] << "x"
              << problem_.kernel[1] << ": using TF32";
  }

  const ConvolutionProblem problem_;
  const CudnnContext context_;
  CudaQueue& queue_;
  const int64_t bottom_, weights_, top_;  // elements
  const size_t copies_;                   // bytes of the copies of all three, before cuDNN's part
  ConvolutionPasses half_;
  std::unique_ptr<ConvolutionPasses> full_;  // made for the first pass that needs it
  size_t workspace_bytes_;
};

}  // namespace

std::unique_ptr<ConvolutionPlan> PlanBfloat16Convolution(const ConvolutionProblem& problem,
                                                         const CudnnContext& context) {
  return std::make_unique<Bfloat16Convolution>(problem, context);
}

}  // namespace millrace::inline nn
