// cuBLAS and cuDNN as a GpuLibrary.
#ifndef MILLRACE_NN_GPU_CUDA_LIBRARY_H_
#define MILLRACE_NN_GPU_CUDA_LIBRARY_H_

#include <memory>

#include "millrace/clock.h"
#include "nn/gpu/convolution_cache.h"
#include "nn/gpu/cuda_api.h"
#include "nn/gpu/gpu_library.h"
#include "nn/gpu/gpu_settings.h"

namespace millrace::inline nn {

// The library of `queue`, which is a GPU's, by these functions. All outlive it. `cache`: of the
// algorithms of convolutions; null: none. `clock`: of the time for measuring them; null: the
// machine's. Logs its arithmetic. Throws Error, also if the GPU does not have that arithmetic.
std::unique_ptr<GpuLibrary> MakeCudaLibrary(Queue& queue, const CublasApi& cublas,
                                            const CudnnApi& cudnn, const GpuSettings& settings,
                                            ConvolutionCache* cache = nullptr,
                                            const Clock* clock = nullptr);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_CUDA_LIBRARY_H_
