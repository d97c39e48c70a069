// Convolutions by cuDNN.
#ifndef MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_
#define MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_

#include <memory>

#include "nn/gpu/cuda_convolution_passes.h"
#include "nn/gpu/gpu_library.h"
#include "nn/gpu/gpu_settings.h"

namespace millrace::inline nn {

// Of cuDNN's algorithms.
inline constexpr size_t kMaxConvolutionWorkspace = size_t{1} << 30;

// Throws Error, which names the pass, unless `found`.
void RequireAlgorithm(const Device& device, bool found, const char* pass);

// `precision` is not kAuto. Throws Error. cuda_convolution_passes.h says which algorithms it
// chooses.
std::unique_ptr<ConvolutionPlan> PlanCudnnConvolution(const ConvolutionProblem& problem,
                                                      const CudnnContext& context,
                                                      GpuPrecision precision, KeptInput kept);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_
