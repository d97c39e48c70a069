// Strategy "local": a solver trains on weights of its own, in host memory, and merges them with the
// shared ones when a sync condition fires.
//
// With the additive rule, this is asynchronous SGD with communication periods, and with separate
// periods for pushes and fetches Downpour SGD (Dean et al.: "Large Scale Distributed Deep
// Networks", NIPS 2012, section 4.1). Unlike there, a fetch keeps the progress that has not been
// pushed. The rule "average" makes the shared weights the mean of all solvers' weights, if all
// merge equally often. The rule "easgd" is elastic averaging (local_merge.h).
#ifndef MILLRACE_STRATEGY_LOCAL_H_
#define MILLRACE_STRATEGY_LOCAL_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "millrace/memory_space.h"
#include "solver/strategy.h"
#include "strategy/sync_conditions.h"
#include "weights/weight_buffer.h"

namespace millrace::inline strategy {

struct LocalConfig {
  enum class Rule { kAdditive, kAverage, kElastic };

  SyncConditions conditions;
  // Periods in iterations of the solver, besides the conditions; 0: none. For kAdditive.
  int64_t fetch = 0, push = 0;
  Rule rule = Rule::kAdditive;
  double share = 0;  // kAverage: factor of a solver's progress; 0: 1 / number of solvers
  double pull = 0;   // kElastic
  // Solvers that share the weights at least: those of this process.
  int solvers = 1;
  const Clock* clock = nullptr;     // outlives the strategy
  std::function<bool()> has_peers;  // as of HogwildStrategy
};

class LocalStrategy : public Strategy {
 public:
  // Registers a solver in the iteration clock of `shared`, which outlives this object, and copies
  // these weights. Throws Error if the clock has no room for another solver, or if there is not
  // enough memory.
  LocalStrategy(WeightBuffer* shared, LocalConfig config);
  ~LocalStrategy() override;

  float* weights() override { return weights_.get<float>(); }
  std::optional<int64_t> Claim(int64_t limit) override { return clock_.Claim(limit); }
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  // Merges if it is time.
  void Complete() override;
  void Flush() override;

 private:
  // Calls work(begin, count) for all elements, under the lock of the shared weights.
  template <typename Work>
  void ForShared(Work work);
  void Push();
  void Fetch();
  void Merge();
  bool HasPeers() const;
  SyncState State() const;

  WeightBuffer& shared_;
  IterationClock& clock_;
  const LocalConfig config_;
  UpdateLock holder_;
  const int slot_;
  const Buffer weights_, base_;
  int solvers_;  // the most that have been seen to share the weights
  int64_t since_merge_ = 0, since_push_ = 0, since_fetch_ = 0;  // own iterations
  int64_t merged_global_ = 0;  // the run's iterations at the last merge
  double merged_seconds_ = 0;  // time of the last merge
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_LOCAL_H_
