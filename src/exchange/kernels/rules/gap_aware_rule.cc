#include "exchange/kernels/rules/gap_aware_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule gap_aware(
    {.name = "gap_aware",
     .parameters = {{.name = "memory", .default_value = 0.99, .least = 0, .most = 0.9999}}},
    MakeGapAwareRule);

}  // namespace
}  // namespace millrace::inline exchange
