#include "device/cuda_kernel.h"
#include "nn/layers/pooling_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<MaxPoolForward, MaxPoolBackward, AveragePoolTop, AveragePoolBottom>
    registered;

}  // namespace
}  // namespace millrace::inline nn
