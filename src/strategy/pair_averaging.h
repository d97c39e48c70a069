// Strategy "gossip": each solver of a process trains on weights of its own, and averages them with
// those of another solver that it draws, without a center: AD-PSGD (Lian, Zhang, Zhang, Liu:
// "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML 2018). For solvers i and
// j,
//   w_i = w_j = (w_i + w_j) / 2
// which leaves the mean of all solvers' weights as it is; or by a rule (gossip_rules.h). The run's
// weights are this mean after each Flush and Publish.
//
// The weights w_i of a solver on a device are in memory of the host, where others average it. The
// device trains on a copy: when it is time to average, the solver adds what the device has gained
// to w_i, averages, and copies w_i to the device. Gradients are thus computed at weights of some
// iterations before, as in the paper.
#ifndef MILLRACE_STRATEGY_PAIR_AVERAGING_H_
#define MILLRACE_STRATEGY_PAIR_AVERAGING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/threads/range_lock.h"
#include "millrace/memory_space.h"
#include "solver/strategy.h"
#include "strategy/gossip_rules.h"
#include "strategy/replica_copy.h"
#include "strategy/sync_conditions.h"
#include "weights/device_weights.h"
#include "weights/weight_buffer.h"

namespace millrace::inline strategy {

// The arrays of all solvers. Thread-safe. Memory: one array of weights for each solver; with a rule
// three.
class PairTeam {
 public:
  static constexpr int kMaxSolvers = RangeLockTable::kExclusive;

  // Copies `weights`, the run's, which outlive this object. `solvers`: at most kMaxSolvers.
  // `seed`: of the draws. `rule`: none: pairs take their mean. `state`: of a snapshot that the run
  // continues, with the arrays of each solver. Throws Error if these do not fit.
  PairTeam(WeightBuffer* weights, int solvers, uint64_t seed, std::optional<NoLoCo> rule = {},
           const ContinuedState& state = {});
  ~PairTeam();

  WeightBuffer& run() { return run_; }
  int solvers() const { return static_cast<int>(arrays_.size()); }
  float* weights(int solver) { return arrays_[solver]->weights.get<float>(); }
  // The lock that solver `solver` shares with those that average.
  RangeLock* lock(int solver) { return &arrays_[solver]->lock; }

  // The partner of solver `solver` in its `round`, another one; pseudo-random.
  int PartnerOf(int solver, uint64_t round) const;
  // Merges the weights of two solvers, in the thread of `solver`.
  void Average(int solver, int partner);
  // Adds the arrays of solver `solver` to its part of a snapshot.
  void Export(int solver, SolverPart* part) const;
  // Sets the run's weights to the mean of all solvers' weights, in the thread of `solver`. No pair
  // is averaged in between. `holder`: of the run's weights.
  void SetRunToMean(int solver, UpdateLock* holder);

 private:
  struct Array {
    Array(int64_t size, int solvers, bool has_rule);

    const Buffer weights;
    const Buffer slow, velocity;  // of a rule, else empty
    RangeLock lock;
    // By solver that averages: what it holds while it does.
    std::vector<std::unique_ptr<RangeLock::Exclusive>> holders;
  };

  // Waits for the range [begin, begin + count) of the arrays `which`, which are in ascending order,
  // calls work(), and gives them back.
  template <typename Work>
  void WithBlocks(int solver, const std::vector<int>& which, int64_t begin, int64_t count,
                  Work work);

  WeightBuffer& run_;
  const uint64_t seed_;
  const std::optional<NoLoCo> rule_;
  std::vector<std::unique_ptr<Array>> arrays_;  // by solver
  std::vector<int> all_;                        // all solvers
};

class PairAveraging : public Strategy, private UpdateBehindPasses {
 public:
  // `conditions`: when this solver averages; empty: after each iteration. `replica`: of a solver on
  // a device; null: the solver computes on the host. `clock`, `team` and `replica` outlive this
  // object. Memory of the host: two more arrays of weights on a device, or if conditions read
  // weights. Throws Error if the run's clock has no room for another solver, or if there is not
  // enough memory.
  PairAveraging(PairTeam* team, int index, SyncConditions conditions, const Clock* clock,
                DeviceWeights* replica = nullptr);
  ~PairAveraging() override;

  Device& device() const override { return replica_ ? replica_->device() : HostDevice(); }
  float* weights() override { return replica_ ? replica_->data() : team_.weights(index_); }
  void Prepare(UpdateRule* rule) override;
  UpdateLock* lock() override { return replica_ ? nullptr : &own_holder_; }
  std::optional<int64_t> Claim(int64_t limit) override { return clock_.Claim(limit); }
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  UpdateBehindPasses* behind_passes(std::string* /*why*/) override { return this; }
  void Write(Queue* queue, const std::function<void()>& write) override;
  // Averages if it is time.
  void Complete() override;
  void Flush() override;
  void Publish() override;
  void ExportState(SolverPart* part) const override;
  // Before the first iteration; the team has the weights. Throws Error if `stored` does not fit.
  void RestoreState(const StateReader& stored);

 private:
  WriteOrder& order() override { return replica_->order(); }
  // Each solver's progress counts 1 / N in the mean, so that momentum need not look ahead.
  float look_ahead() const override { return 0; }
  bool IsDue();
  // Copies the weights to own_.
  void ReadOwn();
  // On a device, as HogwildUpdatePush and HogwildUpdateFetch (local_merger.h) with the team's
  // array.
  void Push();
  void Fetch();

  PairTeam& team_;
  const int index_;
  const SyncConditions conditions_;
  const Clock& time_;
  IterationClock& clock_;
  DeviceWeights* const replica_;     // may be null
  std::optional<ReplicaCopy> copy_;  // of replica_
  UpdateLock own_holder_, run_holder_;
  const int slot_;
  // Copies of the weights, of a device or for conditions, since others may average those of the
  // team: now, and after the last merge or Push.
  Buffer own_, base_;
  bool current_ = true;  // whether own_ holds what the device has
  uint64_t round_ = 0;
  int64_t since_merge_ = 0;    // own iterations
  int64_t merged_global_ = 0;  // the run's iterations at the last merge
  double merged_seconds_ = 0;  // time of the last merge
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_PAIR_AVERAGING_H_
