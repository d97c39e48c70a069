#include "strategy/device_strategy.h"

#include <utility>

namespace millrace::inline strategy {

DeviceStrategy::DeviceStrategy(DeviceWeights* weights, IterationClock* clock,
                               std::function<bool()> has_peers)
    : weights_(*weights),
      clock_(*clock),
      has_peers_(std::move(has_peers)),
      slot_(clock_.RegisterSolver()) {}

DeviceStrategy::~DeviceStrategy() { clock_.ReleaseSolver(slot_); }

void DeviceStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  const bool together = clock_.solvers() > 1 || (has_peers_ && has_peers_());
  // The link's kernels run behind an update that has been enqueued before them. Without this wait,
  // they would stand still for the whole backward pass that the update itself waits for.
  rule->queue().Synchronize();
  weights_.order().Write(rule->queue(),
                         [&] { rule->Apply(rate, together, gradients, weights_.data()); });
}

// The update has been enqueued, so that the kernels which a segment enqueues from now on see it.
void DeviceStrategy::Complete() {
  weights_.CountIteration();
  clock_.Done(slot_);
}

}  // namespace millrace::inline strategy
