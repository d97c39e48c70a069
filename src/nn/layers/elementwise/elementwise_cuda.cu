#include "device/cuda_kernel.h"
#include "nn/layers/elementwise/bias_kernels.h"
#include "nn/layers/elementwise/eltwise_kernels.h"
#include "nn/layers/elementwise/scale_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<MapOfChannels<BiasForward>, SumsOfChannels<BiasGradient>,
                          MapOfChannels<BiasReluForward>, SumsOfChannels<BiasReluGradient>>
    bias;

const RegisterCudaKernels<EltwiseSum, EltwiseScale, EltwiseProduct, EltwiseQuotientGradient,
                          EltwiseMaxOfTwo, EltwiseMaxOfNext, EltwiseMaxGradient>
    eltwise;

const RegisterCudaKernels<
    MapOfChannels<ScaleForward<false, false>>, MapOfChannels<ScaleForward<false, true>>,
    MapOfChannels<ScaleForward<true, false>>, MapOfChannels<ScaleForward<true, true>>,
    MapOfChannels<ScaleBackward>, SumsOfChannels<ScaleGradients>, MapOfChannels<PreluForward>,
    MapOfChannels<PreluBackward>, SumsOfChannels<PreluGradient>>
    scale;

}  // namespace
}  // namespace millrace::inline nn
