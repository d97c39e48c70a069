// The update rules on GPUs.
#include "device/cuda_kernel.h"
#include "nn/layers/write_number_kernels.h"
#include "solver/adaptive_rules.h"
#include "solver/param_rows.h"

namespace millrace::inline solver {
namespace {

const RegisterCudaKernels<UpdateOfRows<SgdUpdate>, SquaresOfRows, ClipBySquares,
                          WriteNumber<UpdateNumbers>>
    sgd;

const RegisterCudaKernels<UpdateOfRows<AdaGradUpdate>, UpdateOfRows<RmsPropUpdate>,
                          UpdateOfRows<AdaDeltaUpdate>, UpdateOfRows<AdamUpdate>>
    element_rules;

}  // namespace
}  // namespace millrace::inline solver
