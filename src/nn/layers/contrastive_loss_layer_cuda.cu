#include "device/cuda_kernel.h"
#include "nn/layers/contrastive_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<PairDistances, LossParts<ContrastiveTerms>, ContrastiveBackward>
    registered;

}  // namespace
}  // namespace millrace::inline nn
