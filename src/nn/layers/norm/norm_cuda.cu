#include "device/cuda_kernel.h"
#include "nn/layers/inner_product/unit_rows_kernels.h"
#include "nn/layers/norm/l2_norm_kernels.h"
#include "nn/layers/norm/lrn_kernels.h"
#include "nn/layers/norm/normalize_kernels.h"
#include "nn/layers/norm/normalize_scale_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<InverseNormOfPosition, InverseNormOfImage, L2NormForward,
                          L2NormProductOfPosition, L2NormProductOfImage, L2NormBackward,
                          L2NormScaleGradient, L2NormSharedGradient>
    l2_norm;

const RegisterCudaKernels<LrnForward, LrnBackward> lrn;

const RegisterCudaKernels<SumsOfChannels<MeanOfChannels>, SumsOfChannels<DeviationOfChannels>,
                          SumsOfChannels<VarianceOfChannels>, SumsOfChannels<MeanSquareOfChannels>,
                          TakeVariance, SumsOfChannels<NormalizeSums>,
                          MapOfChannels<NormalizeForward<false>>,
                          MapOfChannels<NormalizeForward<true>>, MapOfChannels<NormalizeBackward>,
                          MapOfChannels<CenterBackward>, MapOfChannels<GlobalNormalizeBackward>,
                          StatisticsOfSums, AverageInto>
    normalize;

const RegisterCudaKernels<
    MapOfChannels<NormalizeScaleForward<false, false>>,
    MapOfChannels<NormalizeScaleForward<false, true>>,
    MapOfChannels<NormalizeScaleForward<true, false>>,
    MapOfChannels<NormalizeScaleForward<true, true>>, SumsOfChannels<NormalizeScaleSums<false>>,
    SumsOfChannels<NormalizeScaleSums<true>>, MapOfChannels<NormalizeScaleBackward<false, false>>,
    MapOfChannels<NormalizeScaleBackward<false, true>>,
    MapOfChannels<NormalizeScaleBackward<true, false>>,
    MapOfChannels<NormalizeScaleBackward<true, true>>>
    normalize_scale;

const RegisterCudaKernels<ScaleToUnit, UnitRowGradient> unit_rows;

}  // namespace
}  // namespace millrace::inline nn
