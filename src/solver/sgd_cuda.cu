#include "device/cuda_kernel.h"
#include "nn/layers/write_number_kernels.h"
#include "solver/param_rows.h"

namespace millrace::inline solver {
namespace {

const RegisterCudaKernels<UpdateOfRows<SgdUpdate>, SquaresOfRows, ClipBySquares,
                          WriteNumber<UpdateNumbers>>
    registered;

}  // namespace
}  // namespace millrace::inline solver
