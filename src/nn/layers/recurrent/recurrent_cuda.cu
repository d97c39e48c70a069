#include "device/cuda_kernel.h"
#include "nn/layers/recurrent/recurrent_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LstmForward, LstmBackward> lstm;

const RegisterCudaKernels<ContinueState, TanhForward, TanhStepBackward> recurrent;

}  // namespace
}  // namespace millrace::inline nn
