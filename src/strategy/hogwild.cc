#include "strategy/hogwild.h"

#include <utility>

#include "solver/look_ahead.h"
#include "strategy/device_strategy.h"
#include "strategy/strategy_plans.h"

namespace millrace::inline strategy {

HogwildStrategy::HogwildStrategy(WeightBuffer* weights, std::function<float()> peers, float lambda,
                                 int passes)
    : weights_(*weights),
      clock_(weights->clock()),
      peers_(std::move(peers)),
      holder_(&weights->locks()),
      slot_(clock_.RegisterSolver()),
      compensation_(lambda, passes, weights->size()) {}

HogwildStrategy::~HogwildStrategy() { clock_.ReleaseSolver(slot_); }

std::optional<int64_t> HogwildStrategy::Claim(int64_t limit) {
  const std::optional<int64_t> iteration = clock_.Claim(limit);
  if (iteration) compensation_.Begin(weights_.data());
  return iteration;
}

void HogwildStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  rule->Apply(rate, LookAheadOf(clock_, peers_), compensation_.Correct(gradients, weights_.data()),
              weights_.data());
}

// The default strategy: solvers on CPUs share the host's weights, each GPU has a replica.

HogwildPlan::HogwildPlan(const caffe::SolverParameter& param, const PartValues& values)
    : delay_compensation(static_cast<float>(values.at("delay_compensation"))),
      passes(param.iter_size()) {
  links_devices = true;
  if (param.strategy().sync_condition_size() > 0) {
    throw FieldError("strategy.sync_condition", "strategy hogwild has no sync conditions");
  }
  if (param.strategy().has_merge_rule()) {
    throw FieldError("strategy.merge_rule", "strategy hogwild has no merge rule");
  }
}

StrategyMaker HogwildPlan::Make(const StrategyContext& context) const {
  return [context, lambda = delay_compensation,
          passes = passes](int index) -> std::unique_ptr<Strategy> {
    if (DeviceWeights* const replica = context.ReplicaOf(index)) {
      return std::make_unique<DeviceStrategy>(replica, &context.weights->clock(),
                                              context.peers_look_ahead, lambda, passes);
    }
    return std::make_unique<HogwildStrategy>(context.weights, context.peers_look_ahead, lambda,
                                             passes);
  };
}

namespace {

const RegisterStrategy hogwild(
    {{.name = "hogwild", .parameters = {{.name = "delay_compensation", .least = 0, .most = 1e6}}},
     MakePlan<HogwildPlan>});

}  // namespace
}  // namespace millrace::inline strategy
