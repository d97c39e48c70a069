// The merge rules on GPUs: the kernel of each, found by the rule's name.
#include "exchange/kernels/rules/additive_rule.h"
#include "exchange/kernels/rules/average_rule.h"
#include "exchange/kernels/rules/cgad_rule.h"
#include "exchange/kernels/rules/cuda_rule_kernel.h"
#include "exchange/kernels/rules/decayed_rule.h"
#include "exchange/kernels/rules/delay_compensated_rule.h"
#include "exchange/kernels/rules/easgd_rule.h"
#include "exchange/kernels/rules/gap_aware_rule.h"
#include "exchange/kernels/rules/heloco_rule.h"
#include "exchange/kernels/rules/mla_rule.h"
#include "exchange/kernels/rules/outer_rule.h"
#include "exchange/kernels/rules/staleness_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterCudaRule additive("additive", [](const RuleParameters&) { return AdditiveRule{}; });
const RegisterCudaRule average("average", [](const RuleParameters&) { return AverageRule(); });
const RegisterCudaRule cgad("cgad", MakeCgadRule);
const RegisterCudaRule decayed("decayed", MakeDecayedRule);
const RegisterCudaRule delay_compensated("delay_compensated", MakeDelayCompensatedRule);
const RegisterCudaRule easgd("easgd", MakeEasgdRule);
const RegisterCudaRule gap_aware("gap_aware", MakeGapAwareRule);
const RegisterCudaRule heloco("heloco", MakeHelocoRule);
const RegisterCudaRule mla("mla", MakeMlaRule);
const RegisterCudaRule outer("outer", MakeOuterRule);
const RegisterCudaRule staleness("staleness", MakeStalenessRule);

}  // namespace
}  // namespace millrace::inline exchange
