#include "strategy/hogwild.h"

#include <utility>

namespace millrace::inline strategy {

HogwildStrategy::HogwildStrategy(WeightBuffer* weights, std::function<bool()> has_peers)
    : weights_(*weights),
      clock_(weights->clock()),
      has_peers_(std::move(has_peers)),
      holder_(&weights->locks()),
      slot_(clock_.RegisterSolver()) {}

HogwildStrategy::~HogwildStrategy() { clock_.ReleaseSolver(slot_); }

void HogwildStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  const bool together = clock_.solvers() > 1 || (has_peers_ && has_peers_());
  rule->Apply(rate, together, gradients, weights_.data());
}

}  // namespace millrace::inline strategy
