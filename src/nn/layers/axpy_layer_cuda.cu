#include "device/cuda_kernel.h"
#include "nn/layers/axpy_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<AxpyOfChannels, AxpyFactorGradient> registered;

}  // namespace
}  // namespace millrace::inline nn
