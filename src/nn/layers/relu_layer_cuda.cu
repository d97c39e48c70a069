#include "device/cuda_kernel.h"
#include "nn/layers/relu_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<ReluForward, ReluBackward> registered;

}  // namespace
}  // namespace millrace::inline nn
