#include "device/cuda_kernel.h"
#include "nn/layers/bias_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<MapOfChannels<BiasForward>, SumsOfChannels<BiasGradient>,
                          MapOfChannels<BiasReluForward>, SumsOfChannels<BiasReluGradient>>
    registered;

}  // namespace
}  // namespace millrace::inline nn
