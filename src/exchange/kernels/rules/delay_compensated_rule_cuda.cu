// Delay compensation on GPUs.
#include "exchange/kernels/rules/cuda_rule_kernel.h"
#include "exchange/kernels/rules/delay_compensated_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule delay_compensated("delay_compensated", MakeDelayCompensatedRule);

}  // namespace
}  // namespace millrace::inline exchange
