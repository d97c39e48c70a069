#include "device/cuda_kernel.h"
#include "nn/layers/lstm_kernels.h"

namespace millrace {
namespace {

const RegisterCudaKernels<LstmForward, LstmBackward> registered;

}  // namespace
}  // namespace millrace
