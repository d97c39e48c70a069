// Synchronous training: in each iteration, all solvers of a run compute gradients of their own
// batches with the same weights, the gradients are summed or averaged, and the weights change once.
// N solvers with batches of b thus take the steps of one solver with batches of N * b, up to
// rounding. The solvers of a process share its weights; processes that MPI connects have equal
// ones.
#ifndef MILLRACE_STRATEGY_ALLREDUCE_H_
#define MILLRACE_STRATEGY_ALLREDUCE_H_

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "collective/processes.h"
#include "collective/thread_group.h"
#include "solver/strategy.h"
#include "solver/synchronous_step.h"
#include "weights/weight_buffer.h"

namespace millrace::inline strategy {

struct AllreduceSettings {
  bool average = true;                      // else sum
  int64_t bucket = int64_t{1} << 20;        // floats whose gradients are summed at once
  std::function<bool()> stopped = nullptr;  // whether this process is to stop; null: never
};

// The part that the solvers of a process share.
class AllreduceTeam {
 public:
  // `weights`: of this process; all processes begin with those of rank 0, which this call copies.
  // `processes`: null if this one is alone. Both outlive this object.
  AllreduceTeam(WeightBuffer* weights, int solvers, Processes* processes,
                AllreduceSettings settings);

  WeightBuffer& weights() { return weights_; }
  const AllreduceSettings& settings() const { return settings_; }
  // The first iteration of the run.
  int64_t start() const { return start_; }
  ThreadGroup& gradients() { return gradients_; }
  ThreadGroup& statistics() { return statistics_; }
  void Fail(const std::exception_ptr& error);

 private:
  WeightBuffer& weights_;
  const AllreduceSettings settings_;
  const int64_t start_;
  const std::unique_ptr<Collective> gradients_between_, statistics_between_;  // may be null
  ThreadGroup gradients_, statistics_;
};

// What strategies have in common whose solvers all take the same iterations. A stop of one process
// stops all solvers of all processes after the same iteration.
class TeamStrategy : public Strategy, public SynchronousStep {
 public:
  // `index`: of the solver in its process. The team outlives this object.
  TeamStrategy(AllreduceTeam* team, int index);
  ~TeamStrategy() override;

  std::optional<int64_t> Claim(int64_t limit) override;
  void Complete() override;
  SynchronousStep* synchronous() override { return this; }

  int index() const override { return member_.rank(); }
  int solvers() const override { return member_.size(); }
  int index_in_process() const override { return index_; }
  bool leads_process() const override { return member_.leads_process(); }
  Collective& statistics() override { return statistics_; }
  void SetLoss(float loss) override { loss_ = loss; }
  float loss() const override { return loss_; }
  void Fail(std::exception_ptr error) override { team_.Fail(error); }
  void Meet() override { team_.gradients().WaitForThreads(); }

 protected:
  AllreduceTeam& team() { return team_; }
  Collective& member() { return member_; }
  // Iterations that this solver has claimed, of all that the run has had.
  int64_t claimed() const { return next_; }
  bool claimed_last() const { return next_ >= limit_; }
  // Completes the sums that this solver has started, and with them the mean of the losses and the
  // agreement whether to stop. Waits for all solvers. Throws the error of a solver of this process
  // that has failed.
  void WaitForSums();

 private:
  AllreduceTeam& team_;
  const int index_;
  Collective& member_;
  Collective& statistics_;
  int64_t next_;  // iteration
  int64_t limit_ = 0;
  float loss_ = 0;
  bool stops_ = false;
  std::optional<int> slot_;  // in the iteration clock; of the solver that leads
};

// Divides a flat array of gradients into buckets, which are summed one by one while a backward pass
// still computes those before them: from the end of the array to its start.
class GradientBuckets {
 public:
  // `size` floats in buckets of `bucket` floats, at least 1; the last one may be smaller. The
  // buckets depend on these numbers only.
  GradientBuckets(int64_t size, int64_t bucket) : size_(size), bucket_(bucket), left_(size) {}

  // The elements from `begin` on are complete: calls use(first, count) for each bucket that has
  // become complete since the last call.
  template <typename Use>
  void Complete(int64_t begin, Use use) {
    while (left_ > 0 && std::max<int64_t>(left_ - bucket_, 0) >= begin) {
      const int64_t first = std::max<int64_t>(left_ - bucket_, 0);
      use(first, left_ - first);
      left_ = first;
    }
  }
  // Begins another pass.
  void Restart() { left_ = size_; }

 private:
  const int64_t size_, bucket_;
  int64_t left_;  // elements before this one are in no complete bucket yet
};

class AllreduceStrategy : public TeamStrategy {
 public:
  AllreduceStrategy(AllreduceTeam* team, int index);

  float* weights() override { return team().weights().data(); }
  std::optional<int64_t> Claim(int64_t limit) override;
  // Waits for all solvers. Throws the error of a solver of this process that has failed.
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  // Returns when the weights have been updated, and all solvers of this process have completed the
  // iteration.
  void Complete() override;
  void OnGradients(float* gradients, int64_t begin) override;

 private:
  GradientBuckets buckets_;
};


}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_ALLREDUCE_H_
