#include "exchange/kernels/rules/heloco_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule heloco(
    {.name = "heloco",
     .parameters = {{.name = "rate", .fallback = 0.1, .least = 1e-3, .most = 4},
                    {.name = "momentum", .fallback = 0.9, .least = 0, .most = 0.99},
                    {.name = "keep", .fallback = 0.2, .least = 0, .most = 1},
                    {.name = "turn", .fallback = 0.5, .least = 0, .most = 1},
                    {.name = "shrink", .fallback = 1, .least = 0, .most = 4},
                    {.name = "cap", .fallback = 1, .least = 0, .most = 1},
                    {.name = "kappa", .fallback = 1, .least = 0, .most = 100}}},
    MakeHelocoRule);

}  // namespace
}  // namespace millrace::inline exchange
