// The additive merge rule on GPUs.
#include "exchange/kernels/additive_rule.h"
#include "exchange/kernels/cuda_rule_kernel.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule additive("additive", [](const RuleParameters&) { return AdditiveRule{}; });

}  // namespace
}  // namespace millrace::inline exchange
