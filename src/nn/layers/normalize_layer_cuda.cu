// The kernels of BatchNorm and MVN.
#include "device/cuda_kernel.h"
#include "nn/layers/normalize_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<SumsOfChannels<MeanOfChannels>, SumsOfChannels<DeviationOfChannels>,
                          SumsOfChannels<VarianceOfChannels>, SumsOfChannels<MeanSquareOfChannels>,
                          TakeVariance, SumsOfChannels<NormalizeSums>,
                          MapOfChannels<NormalizeForward<false>>,
                          MapOfChannels<NormalizeForward<true>>, MapOfChannels<NormalizeBackward>,
                          MapOfChannels<CenterBackward>, MapOfChannels<GlobalNormalizeBackward>,
                          StatisticsOfSums, AverageInto>
    registered;

}  // namespace
}  // namespace millrace::inline nn
