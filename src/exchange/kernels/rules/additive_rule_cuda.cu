// The additive merge rule on GPUs.
#include "exchange/kernels/rules/additive_rule.h"
#include "exchange/kernels/rules/cuda_rule_kernel.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule additive("additive", [](const RuleParameters&) { return AdditiveRule{}; });

}  // namespace
}  // namespace millrace::inline exchange
