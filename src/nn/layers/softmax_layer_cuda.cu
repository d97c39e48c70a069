#include "device/cuda_kernel.h"
#include "nn/layers/softmax_kernels.h"

namespace millrace {
namespace {

const RegisterCudaKernels<SoftmaxForward, SoftmaxBackward, LossOfPositions, RightPositions,
                          MeanOfPositions, MeanOfClasses, SoftmaxLossBackward>
    registered;

}  // namespace
}  // namespace millrace
