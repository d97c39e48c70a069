#include "device/cuda_kernel.h"
#include "nn/layers/column_kernels.h"

namespace millrace {
namespace {

const RegisterCudaKernels<ImageToColumns, ColumnsToImage> registered;

}  // namespace
}  // namespace millrace
