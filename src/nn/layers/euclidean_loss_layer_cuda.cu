#include "device/cuda_kernel.h"
#include "nn/layers/euclidean_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossParts<EuclideanTerms>, EuclideanBackward> registered;

}  // namespace
}  // namespace millrace::inline nn
