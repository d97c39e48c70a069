// Convolutions by cuDNN.
#ifndef MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_
#define MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_

#include <cudnn.h>

#include <memory>

#include "device/cuda_queue.h"
#include "nn/gpu/gpu_library.h"

namespace millrace::inline nn {

// Chooses, by cuDNN's heuristics, the fastest algorithms whose workspace is at most 1 GiB. `handle`
// belongs to the stream of `queue`; both outlive the plan. Throws Error.
std::unique_ptr<ConvolutionPlan> PlanCudnnConvolution(const ConvolutionProblem& problem,
                                                      cudnnHandle_t handle, CudaQueue& queue);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_
