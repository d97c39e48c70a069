// The merge rule that averages on GPUs.
#include "exchange/kernels/average_rule.h"
#include "exchange/kernels/cuda_rule_kernel.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule average("average", [](const RuleParameters&) { return AverageRule(); });

}  // namespace
}  // namespace millrace::inline exchange
