#include "device/cuda_kernel.h"
#include "nn/layers/l1_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossParts<L1Terms>, DifferenceBackward<L1Terms>> registered;

}  // namespace
}  // namespace millrace::inline nn
