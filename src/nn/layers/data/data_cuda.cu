#include "device/cuda_kernel.h"
#include "nn/layers/data/pixel_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<PixelsToValues> registered;

}  // namespace
}  // namespace millrace::inline nn
