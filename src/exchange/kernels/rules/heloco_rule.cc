#include "exchange/kernels/rules/heloco_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule heloco(
    {.name = "heloco",
     .parameters = {{.name = "rate", .default_value = 0.1, .least = 1e-3, .most = 4},
                    {.name = "momentum", .default_value = 0.9, .least = 0, .most = 0.99},
                    {.name = "keep", .default_value = 0.2, .least = 0, .most = 1},
                    {.name = "turn", .default_value = 0.5, .least = 0, .most = 1},
                    {.name = "shrink", .default_value = 1, .least = 0, .most = 4},
                    {.name = "cap", .default_value = 1, .least = 0, .most = 1},
                    {.name = "kappa", .default_value = 1, .least = 0, .most = 100}}},
    MakeHelocoRule);

}  // namespace
}  // namespace millrace::inline exchange
