// Convolutions by cuDNN.
#ifndef MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_
#define MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_

#include <memory>

#include "device/cuda_queue.h"
#include "nn/gpu/cuda_api.h"
#include "nn/gpu/gpu_library.h"
#include "nn/gpu/gpu_precision.h"

namespace millrace::inline nn {

// Of cuDNN's algorithms.
inline constexpr size_t kMostConvolutionWorkspace = size_t{1} << 30;

// Throws Error, which names the pass, unless `found`.
void RequireAlgorithm(const Device& device, bool found, const char* pass);

// Chooses, by cuDNN's heuristics, the fastest algorithms whose workspace is at most 1 GiB. An
// algorithm that refuses its work is replaced by the next one. `handle` belongs to the stream of
// `queue`; it, `api` and `queue` outlive the plan. Throws Error.
std::unique_ptr<ConvolutionPlan> PlanCudnnConvolution(const ConvolutionProblem& problem,
                                                      const CudnnApi& api, cudnnHandle_t handle,
                                                      CudaQueue& queue, GpuPrecision precision);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_CUDA_CONVOLUTION_H_
