// The kernels of BatchNorm with the layers behind it.
#include "device/cuda_kernel.h"
#include "nn/layers/normalize_scale_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<
    MapOfChannels<NormalizeScaleForward<false, false>>,
    MapOfChannels<NormalizeScaleForward<false, true>>,
    MapOfChannels<NormalizeScaleForward<true, false>>,
    MapOfChannels<NormalizeScaleForward<true, true>>, SumsOfChannels<NormalizeScaleSums<false>>,
    SumsOfChannels<NormalizeScaleSums<true>>, MapOfChannels<NormalizeScaleBackward<false, false>>,
    MapOfChannels<NormalizeScaleBackward<false, true>>,
    MapOfChannels<NormalizeScaleBackward<true, false>>,
    MapOfChannels<NormalizeScaleBackward<true, true>>>
    registered;

}  // namespace
}  // namespace millrace::inline nn
