#include "device/cuda_kernel.h"
#include "nn/layers/insanity_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<RandomlyDivideNegatives> registered;

}  // namespace
}  // namespace millrace::inline nn
