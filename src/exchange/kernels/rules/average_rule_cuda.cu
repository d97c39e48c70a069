// The merge rule that averages on GPUs.
#include "exchange/kernels/rules/average_rule.h"
#include "exchange/kernels/rules/cuda_rule_kernel.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule average("average", [](const RuleParameters&) { return AverageRule(); });

}  // namespace
}  // namespace millrace::inline exchange
