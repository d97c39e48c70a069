#include "exchange/kernels/rules/cgad_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule cgad(
    {.name = "cgad",
     .parameters = {{.name = "rate", .fallback = 1e-4, .least = 1e-6, .most = 1},
                    {.name = "beta1", .fallback = 0.9, .least = 0, .most = 0.99},
                    {.name = "beta2", .fallback = 0.99, .least = 0, .most = 0.9999},
                    {.name = "epsilon", .fallback = 1e-8, .least = 1e-12, .most = 1},
                    {.name = "decay", .fallback = 0.01, .least = 0, .most = 1},
                    {.name = "cutoff", .fallback = 64, .least = 1, .most = 64}}},
    MakeCgadRule);

}  // namespace
}  // namespace millrace::inline exchange
