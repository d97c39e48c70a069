#include "device/cuda_kernel.h"
#include "nn/layers/inner_distance_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<InnerDistances, InnerDistanceOfExamples, InnerDistanceOfCenters>
    registered;

}  // namespace
}  // namespace millrace::inline nn
