// The merge rule that divides progress by the gap on GPUs.
#include "exchange/kernels/rules/cuda_rule_kernel.h"
#include "exchange/kernels/rules/gap_aware_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule gap_aware("gap_aware", MakeGapAwareRule);

}  // namespace
}  // namespace millrace::inline exchange
