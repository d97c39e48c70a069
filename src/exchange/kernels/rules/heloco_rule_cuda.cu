// The merge rule that corrects the direction of diffs on GPUs.
#include "exchange/kernels/rules/cuda_rule_kernel.h"
#include "exchange/kernels/rules/heloco_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule heloco("heloco", MakeHelocoRule);

}  // namespace
}  // namespace millrace::inline exchange
