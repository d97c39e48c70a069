#include "exchange/kernels/rules/staleness_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule staleness(
    {.name = "staleness",
     .parameters = {{.name = "power", .default_value = 1, .least = 0, .most = 4},
                    {.name = "grace", .default_value = 1, .least = 0, .most = 32}}},
    MakeStalenessRule);

}  // namespace
}  // namespace millrace::inline exchange
