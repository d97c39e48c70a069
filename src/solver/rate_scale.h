// The factor by which the nodes of a cluster multiply the learning rate of the solver file where
// they average their progress (exchange/kernels/rules/average_rule.h): the mean of N nodes'
// progress at N times the rate is the sum of their progress at the rate of the file. It rises from
// 1 during the first iterations, in which large rates do harm (Goyal et al.: "Accurate, large
// minibatch SGD: training ImageNet in 1 hour", 2017). It is smaller where exchanges are stale: the
// further nodes move between two exchanges, the less their mean is worth.
#ifndef MILLRACE_SOLVER_RATE_SCALE_H_
#define MILLRACE_SOLVER_RATE_SCALE_H_

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <string>

namespace millrace::inline solver {

// How the factor grows with the number of nodes.
enum class RateGrowth {
  kLinear,  // SGD
  kRoot,  // steps that are divided by the gradient's magnitude, as those of Adam (Krizhevsky: "One
          // weird trick for parallelizing convolutional neural networks", 2014)
};

inline RateGrowth GrowthOf(const std::string& solver_type) {
  return solver_type == "SGD" || solver_type == "Nesterov" ? RateGrowth::kLinear
                                                           : RateGrowth::kRoot;
}

// Thread-safe.
class RateScale {
 public:
  // `warmup`: see Warmup.
  explicit RateScale(int64_t warmup = 0) : warmup_(warmup) {}

  // The warm-up of a run of so many global iterations.
  static int64_t WarmupOf(int64_t max_iter) { return max_iter / 20; }

  // Limit of a node's progress between two exchanges, in iterations at the rate of the file.
  // Measured: docs/benchmarks/learning.md, "Averages at a scaled learning rate".
  static constexpr double kMaxProgress = 14;
  // Iterations of each node in the shortest warm-up: cifar10_quick bears eight times its rate after
  // 69, but not after 15.
  static constexpr float kWarmup = 100;
  // Limit of the factor: at 5 and 8 times the rate cifar10_quick learns less than at 4 times, and
  // at 16 times it diverges; LeNet loses nothing by the limit.
  static constexpr double kMaxFactor = 4;
  // The factor, at least 1, for the mean of `nodes` >= 1 where exchanges are fresh. `solvers`:
  // those of a node that add to its weights without waiting for each other: the weights move by the
  // sum of their steps.
  static double FreshFactorOf(RateGrowth growth, double nodes, int solvers = 1) {
    const double by_nodes = growth == RateGrowth::kRoot ? std::sqrt(nodes) : nodes;
    return std::max(1.0, std::min(kMaxFactor, by_nodes) / solvers);
  }
  // The same with a `staleness`: iterations of all nodes together between two exchanges of a chunk;
  // 0: not known yet, and the factor is 1.
  static float FactorOf(RateGrowth growth, double nodes, double staleness, int solvers = 1) {
    if (staleness <= 0) return 1;
    const double own = staleness / nodes;  // iterations of one node between two exchanges
    return static_cast<float>(
        std::clamp(kMaxProgress / own, 1.0, FreshFactorOf(growth, nodes, solvers)));
  }
  // Global iterations after which Factor returns the whole factor: `warmup` of the constructor, at
  // least kWarmup for each unit of the factor.
  float Warmup(float factor) const {
    return std::max(static_cast<float>(warmup_), kWarmup * factor);
  }

  // Sets the whole factor, at least 1.
  void Set(float factor) { factor_.store(factor, std::memory_order_relaxed); }
  // The factor at global iteration `iteration` >= 0.
  float Factor(int64_t iteration) const {
    const float whole = factor_.load(std::memory_order_relaxed);
    const float warmup = Warmup(whole);
    const auto passed = static_cast<float>(iteration);
    return passed >= warmup ? whole : 1 + (whole - 1) * passed / warmup;
  }

 private:
  const int64_t warmup_;
  std::atomic<float> factor_ = 1;
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_RATE_SCALE_H_
