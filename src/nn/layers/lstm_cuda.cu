#include "device/cuda_kernel.h"
#include "nn/layers/lstm_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LstmForward, LstmBackward> registered;

}  // namespace
}  // namespace millrace::inline nn
