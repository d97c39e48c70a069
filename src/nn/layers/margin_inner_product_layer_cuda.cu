#include "device/cuda_kernel.h"
#include "nn/layers/margin_inner_product_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<MarginForward, MarginBackward, MarginOfLength, MarginSumOfClass,
                          MarginOfWeights>
    registered;

}  // namespace
}  // namespace millrace::inline nn
