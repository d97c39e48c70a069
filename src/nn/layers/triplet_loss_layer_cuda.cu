#include "device/cuda_kernel.h"
#include "nn/layers/triplet_loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<TripletGap, LossParts<TripletTerms>, TripletBackward> registered;

}  // namespace
}  // namespace millrace::inline nn
