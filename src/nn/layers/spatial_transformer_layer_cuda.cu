#include "device/cuda_kernel.h"
#include "nn/layers/spatial_transformer_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<TransformerForward, TransformerGather, TransformerOfTheta> registered;

}  // namespace
}  // namespace millrace::inline nn
