#include "device/cuda_kernel.h"
#include "solver/sgd_kernels.h"

namespace millrace::inline solver {
namespace {

const RegisterCudaKernels<SgdUpdate, SquaresOfParts, SumOfParts> registered;

}  // namespace
}  // namespace millrace::inline solver
