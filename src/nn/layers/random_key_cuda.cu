#include "device/cuda_kernel.h"
#include "nn/layers/random_key_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<StoreKey> registered;

}  // namespace
}  // namespace millrace::inline nn
