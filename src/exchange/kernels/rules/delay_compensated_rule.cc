#include "exchange/kernels/rules/delay_compensated_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule delay_compensated(
    {.name = "delay_compensated",
     .parameters = {{.name = "strength", .default_value = 4, .least = 0, .most = 1e4}}},
    MakeDelayCompensatedRule);

}  // namespace
}  // namespace millrace::inline exchange
