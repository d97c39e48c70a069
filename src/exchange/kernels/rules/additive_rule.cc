#include "exchange/kernels/rules/additive_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule additive({.name = "additive"},
                                [](const RuleParameters&) { return AdditiveRule{}; });

}  // namespace
}  // namespace millrace::inline exchange
