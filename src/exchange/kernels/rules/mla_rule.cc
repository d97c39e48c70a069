#include "exchange/kernels/rules/mla_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule mla(
    {.name = "mla",
     .parameters = {{.name = "rate", .default_value = 0.5, .least = 1e-3, .most = 2},
                    {.name = "momentum", .default_value = 0.9, .least = 0, .most = 0.99},
                    {.name = "ahead", .default_value = 0.9, .least = 0, .most = 16},
                    {.name = "delay", .default_value = 1, .least = 1, .most = 1024}}},
    MakeMlaRule);

}  // namespace
}  // namespace millrace::inline exchange
