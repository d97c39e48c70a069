// Elastic averaging on GPUs.
#include "exchange/kernels/rules/cuda_rule_kernel.h"
#include "exchange/kernels/rules/easgd_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule easgd("easgd", MakeEasgdRule);

}  // namespace
}  // namespace millrace::inline exchange
