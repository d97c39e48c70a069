#include "device/cuda_kernel.h"
#include "nn/layers/sigmoid_cross_entropy_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossParts<SigmoidCrossEntropyTerms>, SigmoidCrossEntropyBackward>
    registered;

}  // namespace
}  // namespace millrace::inline nn
