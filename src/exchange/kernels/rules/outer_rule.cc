#include "exchange/kernels/rules/outer_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule outer(
    {.name = "outer",
     .parameters = {{.name = "rate", .default_value = 0.5, .least = 1e-3, .most = 2},
                    {.name = "momentum", .default_value = 0, .least = 0, .most = 0.99},
                    {.name = "nesterov", .default_value = 0, .least = 0, .most = 1},
                    {.name = "delay", .default_value = 1, .least = 1, .most = 1024}}},
    MakeOuterRule);

}  // namespace
}  // namespace millrace::inline exchange
