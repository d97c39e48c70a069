#include "device/cuda_kernel.h"
#include "nn/layers/bn_kernels.h"

namespace millrace {
namespace {

const RegisterCudaKernels<SumsOfChannels<BnVariance>, BnOfAverages, MapOfChannels<BnForward<false>>,
                          MapOfChannels<BnForward<true>>, SumsOfChannels<BnSums>,
                          MapOfChannels<BnBackward>, MapOfChannels<BnBackwardOfAverages>>
    registered;

}  // namespace
}  // namespace millrace
