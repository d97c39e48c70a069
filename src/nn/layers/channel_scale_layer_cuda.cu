#include "device/cuda_kernel.h"
#include "nn/layers/channel_scale_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<ScaleChannels, ChannelScaleGradient> registered;

}  // namespace
}  // namespace millrace::inline nn
