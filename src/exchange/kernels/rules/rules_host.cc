// The merge rules for replicas in host memory: name, parameters and code of each. rules_cuda.cu has
// those for GPUs.
#include "exchange/kernels/rules/additive_rule.h"
#include "exchange/kernels/rules/average_rule.h"
#include "exchange/kernels/rules/cgad_rule.h"
#include "exchange/kernels/rules/decayed_rule.h"
#include "exchange/kernels/rules/delay_compensated_rule.h"
#include "exchange/kernels/rules/easgd_rule.h"
#include "exchange/kernels/rules/gap_aware_rule.h"
#include "exchange/kernels/rules/heloco_rule.h"
#include "exchange/kernels/rules/mla_rule.h"
#include "exchange/kernels/rules/outer_rule.h"
#include "exchange/kernels/rules/register_host_rule.h"
#include "exchange/kernels/rules/staleness_rule.h"

namespace millrace::inline exchange {
namespace {

const RegisterHostRule additive({.name = "additive"},
                                [](const RuleParameters&) { return AdditiveRule{}; });

const RegisterHostRule average({.name = "average"},
                               [](const RuleParameters&) { return AverageRule(); });

const RegisterHostRule cgad(
    {.name = "cgad",
     .parameters = {{.name = "rate", .default_value = 1e-4, .least = 1e-6, .most = 1},
                    {.name = "beta1", .default_value = 0.9, .least = 0, .most = 0.99},
                    {.name = "beta2", .default_value = 0.99, .least = 0, .most = 0.9999},
                    {.name = "epsilon", .default_value = 1e-8, .least = 1e-12, .most = 1},
                    {.name = "decay", .default_value = 0.01, .least = 0, .most = 1},
                    {.name = "cutoff", .default_value = 64, .least = 1, .most = 64}}},
    MakeCgadRule);

const RegisterHostRule decayed(
    {.name = "decayed",
     .parameters = {{.name = "decay", .default_value = 0.95, .least = 0, .most = 1}}},
    MakeDecayedRule);

const RegisterHostRule delay_compensated(
    {.name = "delay_compensated",
     .parameters = {{.name = "strength", .default_value = 4, .least = 0, .most = 1e4}}},
    MakeDelayCompensatedRule);

const RegisterHostRule easgd(
    {.name = "easgd",
     .parameters = {{.name = "pull", .default_value = 0.25, .least = 0.01, .most = 0.5},
                    {.name = "rest", .default_value = 1e-3, .least = 1e-4, .most = 1}},
     .rest_distance =
         [](const RuleParameters& parameters) {
           return static_cast<float>(parameters.at("rest"));
         }},
    MakeEasgdRule);

const RegisterHostRule gap_aware(
    {.name = "gap_aware",
     .parameters = {{.name = "memory", .default_value = 0.99, .least = 0, .most = 0.9999}}},
    MakeGapAwareRule);

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

const RegisterHostRule mla(
    {.name = "mla",
     .parameters = {{.name = "rate", .default_value = 0.5, .least = 1e-3, .most = 2},
                    {.name = "momentum", .default_value = 0.9, .least = 0, .most = 0.99},
                    {.name = "ahead", .default_value = 0.9, .least = 0, .most = 16},
                    {.name = "delay", .default_value = 1, .least = 1, .most = 1024}}},
    MakeMlaRule);

const RegisterHostRule outer(
    {.name = "outer",
     .parameters = {{.name = "rate", .default_value = 0.5, .least = 1e-3, .most = 2},
                    {.name = "momentum", .default_value = 0, .least = 0, .most = 0.99},
                    {.name = "nesterov", .default_value = 0, .least = 0, .most = 1},
                    {.name = "delay", .default_value = 1, .least = 1, .most = 1024}}},
    MakeOuterRule);

const RegisterHostRule staleness(
    {.name = "staleness",
     .parameters = {{.name = "power", .default_value = 1, .least = 0, .most = 4},
                    {.name = "grace", .default_value = 1, .least = 0, .most = 32}}},
    MakeStalenessRule);

}  // namespace
}  // namespace millrace::inline exchange
