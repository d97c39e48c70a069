#include "exchange/kernels/rules/cgad_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule cgad(
    {.name = "cgad",
     .parameters = {{.name = "rate", .default_value = 1e-4, .least = 1e-6, .most = 1},
                    {.name = "beta1", .default_value = 0.9, .least = 0, .most = 0.99},
                    {.name = "beta2", .default_value = 0.99, .least = 0, .most = 0.9999},
                    {.name = "epsilon", .default_value = 1e-8, .least = 1e-12, .most = 1},
                    {.name = "decay", .default_value = 0.01, .least = 0, .most = 1},
                    {.name = "cutoff", .default_value = 64, .least = 1, .most = 64}}},
    MakeCgadRule);

}  // namespace
}  // namespace millrace::inline exchange
