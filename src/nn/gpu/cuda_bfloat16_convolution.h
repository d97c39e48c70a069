// Convolutions by cuDNN on copies of the arrays in bfloat16, with channels innermost.
#ifndef MILLRACE_NN_GPU_CUDA_BFLOAT16_CONVOLUTION_H_
#define MILLRACE_NN_GPU_CUDA_BFLOAT16_CONVOLUTION_H_

#include <memory>

#include "nn/gpu/cuda_convolution_passes.h"

namespace millrace::inline nn {

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

#endif  // MILLRACE_NN_GPU_CUDA_BFLOAT16_CONVOLUTION_H_
