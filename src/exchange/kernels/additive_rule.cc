#include "exchange/kernels/additive_rule.h"

#include "exchange/kernels/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule additive({.name = "additive"},
                                [](const RuleParameters&) { return AdditiveRule{}; });

}  // namespace
}  // namespace millrace::inline exchange
