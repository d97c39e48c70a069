// The kernels of Scale and PReLU.
#include "device/cuda_kernel.h"
#include "nn/layers/scale_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<
    MapOfChannels<ScaleForward<false, false>>, MapOfChannels<ScaleForward<false, true>>,
    MapOfChannels<ScaleForward<true, false>>, MapOfChannels<ScaleForward<true, true>>,
    MapOfChannels<ScaleBackward>, SumsOfChannels<ScaleGradients>, MapOfChannels<PreluForward>,
    MapOfChannels<PreluBackward>, SumsOfChannels<PreluGradient>>
    registered;

}  // namespace
}  // namespace millrace::inline nn
