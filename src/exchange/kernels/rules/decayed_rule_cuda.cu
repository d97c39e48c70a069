// Error feedback that decays on GPUs.
#include "exchange/kernels/rules/cuda_rule_kernel.h"
#include "exchange/kernels/rules/decayed_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule decayed("decayed", MakeDecayedRule);

}  // namespace
}  // namespace millrace::inline exchange
