// The kernels of the adaptive update rules on the fake device.
#include "solver/adadelta.h"
#include "solver/adagrad.h"
#include "solver/adam.h"
#include "solver/param_rows.h"
#include "solver/rmsprop.h"
#include "test/support/fake_gpu.h"

namespace millrace::test {
namespace {

const RegisterFakeKernels<UpdateOfRows<AdaGradUpdate>, UpdateOfRows<RmsPropUpdate>,
                          UpdateOfRows<AdaDeltaUpdate>, UpdateOfRows<AdamUpdate>>
    kernels;

}  // namespace
}  // namespace millrace::test
