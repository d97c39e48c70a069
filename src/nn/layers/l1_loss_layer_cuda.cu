#include "device/cuda_kernel.h"
#include "nn/layers/l1_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossParts<L1Terms>, L1Backward> registered;

}  // namespace
}  // namespace millrace::inline nn
