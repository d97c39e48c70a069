#include "device/cuda_kernel.h"
#include "nn/layers/column_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<ImageToColumns, ColumnsToImage> registered;

}  // namespace
}  // namespace millrace::inline nn
