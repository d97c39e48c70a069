// The kernels of Normalize.
#include "device/cuda_kernel.h"
#include "nn/layers/l2_norm_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<InverseNormOfPosition, InverseNormOfImage, L2NormForward,
                          L2NormProductOfPosition, L2NormProductOfImage, L2NormBackward,
                          L2NormScaleGradient, L2NormSharedGradient>
    registered;

}  // namespace
}  // namespace millrace::inline nn
