#include "device/cuda_kernel.h"
#include "nn/layers/seg_accuracy_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<PredictPositions, CountClasses, SegAccuracyOfCounts> registered;

}  // namespace
}  // namespace millrace::inline nn
