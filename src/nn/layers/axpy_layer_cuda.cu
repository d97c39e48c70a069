#include "device/cuda_kernel.h"
#include "nn/layers/axpy_kernels.h"

namespace millrace {
namespace {

const RegisterCudaKernels<AxpyOfChannels, AxpyFactorGradient> registered;

}  // namespace
}  // namespace millrace
