#include "device/cuda_kernel.h"
#include "nn/gpu/bfloat16_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<NarrowToBfloat16, WidenFromBfloat16> registered;

}  // namespace
}  // namespace millrace::inline nn
