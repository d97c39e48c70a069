#include "device/cuda_kernel.h"
#include "nn/layers/dropout_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<DropoutMask> registered;

}  // namespace
}  // namespace millrace::inline nn
