#include "device/cuda_kernel.h"
#include "nn/layers/dice_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossParts<DiceTerms>, DiceOfParts, DiceBackward> registered;

}  // namespace
}  // namespace millrace::inline nn
