#include "device/cuda_kernel.h"
#include "nn/layers/strided_copy_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<CopyElements, CopyRows> registered;

}  // namespace
}  // namespace millrace::inline nn
