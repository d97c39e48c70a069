#include "device/cuda_kernel.h"
#include "nn/layers/split_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<SplitAdd> registered;

}  // namespace
}  // namespace millrace::inline nn
