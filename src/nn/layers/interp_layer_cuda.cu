#include "device/cuda_kernel.h"
#include "nn/layers/interp_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<InterpForward, InterpGradient> registered;

}  // namespace
}  // namespace millrace::inline nn
