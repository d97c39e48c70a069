#include "device/cuda_kernel.h"
#include "nn/layers/smooth_l1_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossParts<SmoothL1Terms>, SmoothL1OfPlaces,
                          DifferenceBackward<SmoothL1Terms>>
    registered;

}  // namespace
}  // namespace millrace::inline nn
