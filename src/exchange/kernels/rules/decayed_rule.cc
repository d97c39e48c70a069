#include "exchange/kernels/rules/decayed_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule decayed(
    {.name = "decayed",
     .parameters = {{.name = "decay", .default_value = 0.95, .least = 0, .most = 1}}},
    MakeDecayedRule);

}  // namespace
}  // namespace millrace::inline exchange
