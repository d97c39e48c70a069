#include "device/cuda_kernel.h"
#include "solver/sgd_kernels.h"

namespace millrace {
namespace {

const RegisterCudaKernels<SgdUpdate, SquaresOfParts, SumOfParts> registered;

}  // namespace
}  // namespace millrace
