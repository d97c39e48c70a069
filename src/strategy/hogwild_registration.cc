// The default strategy: solvers on CPUs share the host's weights, each GPU has a replica.
#include "proto/part_values.h"
#include "solver/strategy_registry.h"
#include "strategy/device_strategy.h"
#include "strategy/hogwild.h"

namespace millrace::inline strategy {
namespace {

StrategyMaker MakeHogwild(const StrategyContext& context) {
  const auto lambda = static_cast<float>(context.parameters.at("delay_compensation"));
  return [context, lambda](int index) -> std::unique_ptr<Strategy> {
    if (DeviceWeights* const replica = context.ReplicaOf(index)) {
      return std::make_unique<DeviceStrategy>(replica, &context.weights->clock(), context.has_peers,
                                              lambda, context.config->param.iter_size());
    }
    return std::make_unique<HogwildStrategy>(context.weights, context.has_peers, lambda,
                                             context.config->param.iter_size());
  };
}

const RegisterStrategy hogwild(
    {.part = {.name = "hogwild",
              .parameters = {{.name = "delay_compensation", .least = 0, .most = 1e6}}},
     .make = MakeHogwild});

}  // namespace
}  // namespace millrace::inline strategy
