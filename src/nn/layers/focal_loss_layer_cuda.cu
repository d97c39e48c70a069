#include "device/cuda_kernel.h"
#include "nn/layers/focal_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossParts<FocalTerms>, FocalBackward> registered;

}  // namespace
}  // namespace millrace::inline nn
