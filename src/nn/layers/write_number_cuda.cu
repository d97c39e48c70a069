#include "device/cuda_kernel.h"
#include "nn/layers/write_number_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<WriteNumber<float>, WriteNumber<uint64_t>> registered;

}  // namespace
}  // namespace millrace::inline nn
