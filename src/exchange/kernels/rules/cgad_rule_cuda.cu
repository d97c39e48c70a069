// The merge rule with Adam and a gate of stale diffs on GPUs.
#include "exchange/kernels/rules/cgad_rule.h"
#include "exchange/kernels/rules/cuda_rule_kernel.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule cgad("cgad", MakeCgadRule);

}  // namespace
}  // namespace millrace::inline exchange
