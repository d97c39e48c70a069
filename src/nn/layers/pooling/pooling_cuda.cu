#include "device/cuda_kernel.h"
#include "nn/layers/pooling/pooling_kernels.h"
#include "nn/layers/pooling/stochastic_pooling_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<MaxPoolForward, MaxPoolBackward, AveragePoolTop, AveragePoolBottom>
    pooling;

const RegisterCudaKernels<StochasticPoolDraw, StochasticPoolMean, StochasticPoolMeanGradient>
    stochastic_pooling;

}  // namespace
}  // namespace millrace::inline nn
