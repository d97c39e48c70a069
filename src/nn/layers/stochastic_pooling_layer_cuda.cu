#include "device/cuda_kernel.h"
#include "nn/layers/stochastic_pooling_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<StochasticPoolDraw, StochasticPoolMean, StochasticPoolMeanGradient>
    registered;

}  // namespace
}  // namespace millrace::inline nn
