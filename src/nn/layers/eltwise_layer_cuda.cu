#include "device/cuda_kernel.h"
#include "nn/layers/eltwise_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<EltwiseSum, EltwiseScale, EltwiseProduct, EltwiseQuotientGradient,
                          EltwiseMaxOfTwo, EltwiseMaxOfNext, EltwiseMaxGradient>
    registered;

}  // namespace
}  // namespace millrace::inline nn
