#include "device/cuda_kernel.h"
#include "nn/layers/argmax_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LargestOfRows> registered;

}  // namespace
}  // namespace millrace::inline nn
