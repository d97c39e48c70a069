#include "device/cuda_kernel.h"
#include "solver/param_rows.h"

namespace millrace::inline solver {
namespace {

const RegisterCudaKernels<UpdateOfRows<SgdUpdate>, SquaresOfRows, SumOfParts> registered;

}  // namespace
}  // namespace millrace::inline solver
