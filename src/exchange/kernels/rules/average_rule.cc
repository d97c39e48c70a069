#include "exchange/kernels/rules/average_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule average({.name = "average"},
                               [](const RuleParameters&) { return AverageRule(); });

}  // namespace
}  // namespace millrace::inline exchange
