#include "device/cuda_kernel.h"
#include "nn/layers/convolution/column_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<ImageToColumns, ColumnsToImage> registered;

}  // namespace
}  // namespace millrace::inline nn
