// Synchronous training with communication periods: each solver trains on weights of its own, and
// after the same iterations, all solvers merge theirs with the run's weights c (the center). Every
// process holds the same c. For solver i of N with the weights w_i, and g = sum_i (w_i - c):
//
//   kAdditive: c = c + g                     w_i = c    Downpour SGD (Dean et al., NIPS 2012)
//                                                       without its asynchrony
//   kAverage:  c = c + g / N                 w_i = c    local SGD (Stich: "Local SGD converges fast
//                                                       and communicates little", 2018)
//   kElastic:  w_i = w_i - pull (w_i - c);   c = c + pull g (with the old c in both: synchronous
//                                            EASGD, Zhang, Choromanska, LeCun, NIPS 2015, eq. 5, 6)
//   kOuter:    v = momentum v + g / N;       c = c + rate v, or with nesterov
//                                            c = c + rate (g / N + momentum v)    w_i = c
//              block momentum (Chen, Huo, ICASSP 2016); with nesterov the outer optimizer of DiLoCo
//              (Douillard et al., 2023), in the form of PyTorch's SGD
//
// A solver keeps the history of its update rule over merges. v begins with 0 when a run starts.
// Snapshots hold v, and with kElastic the weights of each solver.
#ifndef MILLRACE_STRATEGY_SYNCHRONOUS_MERGE_H_
#define MILLRACE_STRATEGY_SYNCHRONOUS_MERGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "millrace/memory_space.h"
#include "millrace/queue.h"
#include "proto/caffe.pb.h"
#include "solver/run_state.h"
#include "strategy/allreduce.h"

namespace millrace::inline strategy {

struct SynchronousMergeConfig {
  enum class Rule { kAdditive, kAverage, kElastic, kOuter };

  int64_t every = 1;  // iterations between merges, counted from the start of training
  Rule rule = Rule::kAverage;
  float pull = 0;                // kElastic
  float rate = 1, momentum = 0;  // kOuter
  bool nesterov = false;         // kOuter
};

// Moves `center` by `sum`, the sum g of the differences of all `solvers`, as work of `queue`.
// `velocity`: v, for kOuter; else null. The arrays are in memory of the queue's device, have
// `count` elements, and do not overlap.
void MoveCenter(Queue* queue, const SynchronousMergeConfig& config, int solvers, int64_t count,
                const float* sum, float* velocity, float* center);
// The same on the calling thread.
void MoveCenter(const SynchronousMergeConfig& config, int solvers, int64_t count, const float* sum,
                float* velocity, float* center);

class SynchronousMergeStrategy : public TeamStrategy {
 public:
  // Copies the weights of the team, which outlives this object. Throws Error if there is not enough
  // memory.
  SynchronousMergeStrategy(AllreduceTeam* team, int index, const SynchronousMergeConfig& config);

  float* weights() override { return weights_.get<float>(); }
  // If the iteration ends with a merge, waits for all solvers. Throws the error of a solver of this
  // process that has failed.
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  // Merges if it is time.
  void Complete() override;
  bool sums_gradients() const override { return false; }
  void OnGradients(float* /*gradients*/, int64_t /*begin*/) override {}
  bool updates() const override { return true; }
  bool merged() const override { return merges_; }
  void ExportState(SolverPart* part) const override;
  // Before the first iteration. `leader`: the part of solver 0 of the process that saved, `own`:
  // that of this solver, null if it has been a solver of another process. Throws Error if they do
  // not fit.
  void RestoreState(const StateReader& leader, const StateReader* own);

 private:
  float* center() { return team().weights().data(); }
  void Merge();

  const SynchronousMergeConfig config_;
  const Buffer weights_;
  std::vector<float> sums_;      // of differences
  std::vector<float> velocity_;  // of the solver that leads its process
  bool merges_ = true;           // whether the last iteration ended with a merge
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_SYNCHRONOUS_MERGE_H_
