// The merge rule with momentum look-ahead on GPUs.
#include "exchange/kernels/rules/cuda_rule_kernel.h"
#include "exchange/kernels/rules/mla_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule mla("mla", MakeMlaRule);

}  // namespace
}  // namespace millrace::inline exchange
