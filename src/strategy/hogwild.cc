#include "strategy/hogwild.h"

#include <utility>

namespace millrace::inline strategy {

HogwildStrategy::HogwildStrategy(WeightBuffer* weights, std::function<bool()> has_peers,
                                 float lambda, int passes)
    : weights_(*weights),
      clock_(weights->clock()),
      has_peers_(std::move(has_peers)),
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
  const bool together = clock_.solvers() > 1 || (has_peers_ && has_peers_());
  rule->Apply(rate, together, compensation_.Correct(gradients, weights_.data()), weights_.data());
}

}  // namespace millrace::inline strategy
