#include "device/cuda_kernel.h"
#include "nn/layers/multinomial_logistic_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossParts<MultinomialLogisticTerms>, MultinomialLogisticBackward>
    registered;

}  // namespace
}  // namespace millrace::inline nn
