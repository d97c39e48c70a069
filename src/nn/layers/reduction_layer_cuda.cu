#include "device/cuda_kernel.h"
#include "nn/layers/reduction_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<ReduceRows, ReductionGradient> registered;

}  // namespace
}  // namespace millrace::inline nn
