#include "device/cuda_kernel.h"
#include "nn/layers/center_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossParts<CenterTerms>, CenterLossBackward, CenterGradient> registered;

}  // namespace
}  // namespace millrace::inline nn
