#include "device/cuda_kernel.h"
#include "nn/layers/bias_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<AddBias, BiasGradient> registered;

}  // namespace
}  // namespace millrace::inline nn
