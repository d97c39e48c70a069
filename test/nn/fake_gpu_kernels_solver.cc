// The kernels of adaptive update rules and of strategies on the fake device.
#include "solver/adaptive_rules.h"
#include "solver/param_rows.h"
#include "strategy/delay_compensation.h"
#include "strategy/merge_kernels.h"
#include "test/support/fake_gpu.h"

namespace millrace::test {
namespace {

const RegisterFakeKernels<UpdateOfRows<AdaGradUpdate>, UpdateOfRows<RmsPropUpdate>,
                          UpdateOfRows<AdaDeltaUpdate>, UpdateOfRows<AdamUpdate>, TakeDifferences,
                          AddSum, OuterStep, Compensate>
    kernels;

}  // namespace
}  // namespace millrace::test
