// The default strategy: solvers on CPUs share the host's weights, each GPU has a replica.
#include "solver/strategy_registry.h"
#include "strategy/device_strategy.h"
#include "strategy/hogwild.h"

namespace millrace::inline strategy {
namespace {

StrategyMaker MakeHogwild(const StrategyContext& context) {
  return [context](int index) -> std::unique_ptr<Strategy> {
    if (DeviceWeights* const replica = context.ReplicaOf(index)) {
      return std::make_unique<DeviceStrategy>(replica, &context.weights->clock(),
                                              context.has_peers);
    }
    return std::make_unique<HogwildStrategy>(context.weights, context.has_peers);
  };
}

const RegisterStrategy hogwild({.part = {.name = "hogwild"}, .make = MakeHogwild});

}  // namespace
}  // namespace millrace::inline strategy
