#include "exchange/kernels/additive_rule.h"

#include "exchange/kernels/register_merge_rule.h"

namespace millrace {
namespace {

const RegisterMergeRule additive({.name = "additive", .parameters = {}},
                                 [](const RuleParameters&) { return AdditiveRule{}; });

}  // namespace
}  // namespace millrace
