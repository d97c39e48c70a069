#include "device/cuda_kernel.h"
#include "nn/layers/recurrent_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<ContinueState, TanhForward, TanhStepBackward> registered;

}  // namespace
}  // namespace millrace::inline nn
