#include "nn/gpu/cuda_convolution.h"

#include "nn/gpu/cuda_bfloat16_convolution.h"

namespace millrace::inline nn {
namespace {

// cuDNN's default arithmetic for float32 uses TF32 where there are tensor cores for it.
ConvolutionArithmetic ArithmeticOf(GpuPrecision precision) {
  if (precision == GpuPrecision::kTf32) {
    return {"tf32", CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, CUDNN_DEFAULT_MATH};
  }
  return {"fp32", CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, CUDNN_FMA_MATH};
}

// A convolution on the arrays as they are.
class CudnnConvolution final : public ConvolutionPlan {
 public:
  CudnnConvolution(const ConvolutionProblem& problem, const CudnnContext& context,
                   GpuPrecision precision)
      : device_(context.queue.device()),
        passes_(problem, ArithmeticOf(precision), kMaxConvolutionWorkspace, context) {
    RequireAlgorithm(device_, passes_.has_forward(), "forward");
    RequireAlgorithm(device_, passes_.has_data(), "backward");
    RequireAlgorithm(device_, passes_.has_weights(), "weight");
  }

  size_t workspace_bytes() const override { return passes_.workspace_bytes(); }
  std::vector<PassAlgorithm> algorithms() const override { return passes_.algorithms(); }
  void Forward(const float* bottom, const float* weights, float* top, void* workspace) override {
    RequireAlgorithm(device_, passes_.Forward(bottom, weights, top, workspace), "forward");
  }
  void BackwardData(const float* top_diff, const float* weights, float* bottom_diff,
                    void* workspace) override {
    RequireAlgorithm(device_, passes_.BackwardData(top_diff, weights, bottom_diff, workspace),
                     "backward");
  }
  void BackwardWeights(const float* bottom, const float* top_diff, bool add, float* weight_diff,
                       void* workspace) override {
    RequireAlgorithm(
        device_, passes_.BackwardWeights(bottom, top_diff, add, weight_diff, workspace), "weight");
  }

 private:
  const Device& device_;
  ConvolutionPasses passes_;
};

// A convolution of no images: cuDNN refuses tensors of no elements.
class EmptyConvolution final : public ConvolutionPlan {
 public:
  EmptyConvolution(const ConvolutionProblem& p, CudaQueue& queue)
      : weights_(p.outputs * (p.channels / p.group) * p.kernel[0] * p.kernel[1]), queue_(queue) {}
  size_t workspace_bytes() const override { return 0; }
  void Forward(const float*, const float*, float*, void*) override {}
  void BackwardData(const float*, const float*, float*, void*) override {}
  void BackwardWeights(const float*, const float*, bool add, float* weight_diff, void*) override {
    if (!add) queue_.Fill(weight_diff, 0, weights_ * sizeof(float));
  }

 private:
  const int64_t weights_;
  CudaQueue& queue_;
};

}  // namespace

void RequireAlgorithm(const Device& device, bool found, const char* pass) {
  if (found) return;
  throw Error(device.name(), ": cuDNN has no algorithm for the ", pass, " pass of a convolution");
}

std::unique_ptr<ConvolutionPlan> PlanCudnnConvolution(const ConvolutionProblem& problem,
                                                      const CudnnContext& context,
                                                      GpuPrecision precision, KeptInput kept) {
  if (problem.images == 0) return std::make_unique<EmptyConvolution>(problem, context.queue);
  if (precision == GpuPrecision::kBfloat16) return PlanBfloat16Convolution(problem, context, kept);
  return std::make_unique<CudnnConvolution>(problem, context, precision);
}

}  // namespace millrace::inline nn
