#include "device/cuda_kernel.h"
#include "nn/layers/loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossOfParts> registered;

}  // namespace
}  // namespace millrace::inline nn
