// The merge rule with an outer rate and momentum on GPUs.
#include "exchange/kernels/rules/cuda_rule_kernel.h"
#include "exchange/kernels/rules/outer_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule outer("outer", MakeOuterRule);

}  // namespace
}  // namespace millrace::inline exchange
