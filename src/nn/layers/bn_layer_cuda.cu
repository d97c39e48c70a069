// The statistics of BN. Its other kernels are those of normalize_scale_cuda.cu.
#include "device/cuda_kernel.h"
#include "nn/layers/bn_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<SumsOfChannels<BnVariance>, BnOfAverages> registered;

}  // namespace
}  // namespace millrace::inline nn
