#include "exchange/kernels/rules/easgd_rule.h"

#include "exchange/kernels/rules/register_host_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule easgd(
    {.name = "easgd",
     .parameters = {{.name = "pull", .default_value = 0.25, .least = 0.01, .most = 0.5},
                    {.name = "rest", .default_value = 1e-3, .least = 1e-4, .most = 1}},
     .rest_distance =
         [](const RuleParameters& parameters) {
           return static_cast<float>(parameters.at("rest"));
         }},
    MakeEasgdRule);

}  // namespace
}  // namespace millrace::inline exchange
