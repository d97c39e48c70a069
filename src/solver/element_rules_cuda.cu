#include "device/cuda_kernel.h"
#include "solver/adadelta.h"
#include "solver/adagrad.h"
#include "solver/adam.h"
#include "solver/param_rows.h"
#include "solver/rmsprop.h"

namespace millrace::inline solver {
namespace {

const RegisterCudaKernels<UpdateOfRows<AdaGradUpdate>, UpdateOfRows<RmsPropUpdate>,
                          UpdateOfRows<AdaDeltaUpdate>, UpdateOfRows<AdamUpdate>>
    registered;

}  // namespace
}  // namespace millrace::inline solver
