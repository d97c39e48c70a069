#include "device/cuda_kernel.h"
#include "nn/layers/lrn_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LrnForward, LrnBackward> registered;

}  // namespace
}  // namespace millrace::inline nn
