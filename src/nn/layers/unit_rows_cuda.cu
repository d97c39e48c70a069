#include "device/cuda_kernel.h"
#include "nn/layers/unit_rows_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<ScaleToUnit, UnitRowGradient> registered;

}  // namespace
}  // namespace millrace::inline nn
