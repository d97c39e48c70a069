#ifndef MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_
#define MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_

#include <memory>

#include "nn/gpu/cuda_convolution_passes.h"
#include "nn/gpu/gpu_library.h"
#include "nn/gpu/gpu_settings.h"

namespace millrace::inline nn {

// Convolutions by cuDNN.

// Upper bound on the workspace of cuDNN's algorithms, in bytes.
inline constexpr size_t kMaxConvolutionWorkspace = size_t{1} << 30;

// Throws Error, which names the pass, unless `found`.
void RequireAlgorithm(const Device& device, bool found, const char* pass);

// `precision` is not kAuto. Throws Error. cuda_convolution_passes.h says which algorithms it
// chooses.
std::unique_ptr<ConvolutionPlan> PlanCudnnConvolution(const ConvolutionProblem& problem,
                                                      const CudnnContext& context,
                                                      GpuPrecision precision, KeptInput kept);

// Convolutions by cuDNN on copies of the arrays in bfloat16, with channels innermost.

// Each pass copies its two inputs, rounded to bfloat16 and in the order of tensor cores, convolves
// the copies with sums in float32, and widens the result, which cuDNN has rounded to bfloat16; a
// gradient is added to the one before in float32. Copies are in the workspace; that of the `kept`
// input has memory of its own, if there is any, and serves the layer's backward pass, too. A pass
// for which cuDNN has no algorithm in bfloat16 is computed in TF32 on the arrays themselves, and a
// line in the log says so. The arguments are those of PlanCudnnConvolution; the problem has images.
std::unique_ptr<ConvolutionPlan> PlanBfloat16Convolution(const ConvolutionProblem& problem,
                                                         const CudnnContext& context,
                                                         KeptInput kept);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_
