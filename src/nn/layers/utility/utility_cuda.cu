#include "device/cuda_kernel.h"
#include "nn/layers/utility/argmax_kernels.h"
#include "nn/layers/utility/reduction_kernels.h"
#include "nn/layers/utility/split_kernels.h"
#include "nn/layers/write_number_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LargestOfRows> argmax;

const RegisterCudaKernels<ReduceRows, ReductionGradient> reduction;

const RegisterCudaKernels<SplitAdd> split;

const RegisterCudaKernels<WriteNumber<float>, WriteNumber<uint64_t>> write_number;

}  // namespace
}  // namespace millrace::inline nn
