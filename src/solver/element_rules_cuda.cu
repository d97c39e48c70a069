#include "device/cuda_kernel.h"
#include "solver/adadelta.h"
#include "solver/adagrad.h"
#include "solver/adam.h"
#include "solver/rmsprop.h"

namespace millrace::inline solver {
namespace {

const RegisterCudaKernels<AdaGradUpdate, RmsPropUpdate, AdaDeltaUpdate, AdamUpdate> registered;

}  // namespace
}  // namespace millrace::inline solver
