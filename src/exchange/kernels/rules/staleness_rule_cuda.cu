// The merge rule that takes stale diffs in part on GPUs.
#include "exchange/kernels/rules/cuda_rule_kernel.h"
#include "exchange/kernels/rules/staleness_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule staleness("staleness", MakeStalenessRule);

}  // namespace
}  // namespace millrace::inline exchange
