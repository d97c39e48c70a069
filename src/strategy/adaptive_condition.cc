// Sync condition "adaptive": a period in iterations that is chosen such that other solvers complete
// about `staleness` iterations within it. At every merge, the solver measures how many iterations
// the others have completed per iteration of its own since the merge before, and takes the mean of
// this and the former value as its estimate r. The period is staleness / r, from 1 to `most`. While
// nobody else trains, it is `most`.
#include <algorithm>
#include <cmath>

#include "millrace/sync_condition.h"

namespace millrace::inline strategy {
namespace {

class AdaptiveCondition : public SyncCondition {
 public:
  AdaptiveCondition(double staleness, double most) : staleness_(staleness), most_(most) {}

  bool ReadsWeights() const override { return false; }
  bool Fires(const SyncState& state) override {
    // Before the first merge, the iterations seen so far are the only estimate.
    const double rate = rate_ < 0 ? RateOf(state) : rate_;
    const double period = rate > 0 ? std::clamp(staleness_ / rate, 1.0, most_) : most_;
    return static_cast<double>(state.iterations) >= std::floor(period);
  }

  void Merging(const SyncState& state) override {
    if (state.iterations < 1) return;
    const double measured = RateOf(state);
    rate_ = rate_ < 0 ? measured : (rate_ + measured) / 2;
  }

  std::vector<double> State() const override { return {rate_}; }
  void Restore(std::span<const double> state) override { rate_ = state[0]; }

 private:
  // Iterations of others per iteration of this solver.
  static double RateOf(const SyncState& state) {
    return static_cast<double>(state.shared_iterations - state.iterations) /
           static_cast<double>(state.iterations);
  }

  const double staleness_, most_;
  double rate_ = -1;  // negative: not yet measured
};

const RegisterSyncCondition adaptive(
    {.name = "adaptive",
     .parameters = {{.name = "staleness", .default_value = 16, .least = 0, .most = 1e9},
                    {.name = "most", .default_value = 64, .least = 1, .most = 1e9, .whole = true}}},
    [](const PartValues& values) {
      return std::make_unique<AdaptiveCondition>(values.at("staleness"), values.at("most"));
    });

}  // namespace
}  // namespace millrace::inline strategy
