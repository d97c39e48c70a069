#include "device/cuda_kernel.h"
#include "nn/layers/upsample_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<UpsampleNearest, UpsampleNearestGradient, UpsampleByMask,
                          UpsampleByMaskGradient>
    registered;

}  // namespace
}  // namespace millrace::inline nn
