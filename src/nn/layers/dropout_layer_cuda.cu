#include "device/cuda_kernel.h"
#include "nn/layers/dropout_kernels.h"

namespace millrace {
namespace {

const RegisterCudaKernels<DropoutMask> registered;

}  // namespace
}  // namespace millrace
