#include "device/cuda_kernel.h"
#include "nn/layers/softmax_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<SoftmaxForward, SoftmaxBackward, LossOfPositions, RightPositions,
                          MeanOfPositions, MeanOfClasses, SoftmaxLossBackward>
    registered;

}  // namespace
}  // namespace millrace::inline nn
