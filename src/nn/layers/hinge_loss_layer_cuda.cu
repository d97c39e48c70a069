#include "device/cuda_kernel.h"
#include "nn/layers/hinge_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossParts<HingeTerms>, HingeBackward> registered;

}  // namespace
}  // namespace millrace::inline nn
