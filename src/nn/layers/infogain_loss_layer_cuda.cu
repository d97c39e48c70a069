#include "device/cuda_kernel.h"
#include "nn/layers/infogain_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossParts<InfogainTerms>, InfogainRowSums, InfogainBackward> registered;

}  // namespace
}  // namespace millrace::inline nn
