// The part of the strategy "local" that needs neither a clock nor a lock: a solver's own weights,
// and when and how they are merged with the shared ones. Runs use it in LocalStrategy (local.h),
// and simulations in virtual time.
//
// With the additive rule, this is asynchronous SGD with communication periods, and with separate
// periods for pushes and fetches Downpour SGD (Dean et al.: "Large Scale Distributed Deep
// Networks", NIPS 2012, section 4.1). Unlike there, a fetch keeps the progress that has not been
// pushed. The rule "average" makes the shared weights the mean of all solvers' weights, if all
// merge equally often. The rule "easgd" is elastic averaging.
#ifndef MILLRACE_STRATEGY_LOCAL_MERGER_H_
#define MILLRACE_STRATEGY_LOCAL_MERGER_H_

#include <cstdint>
#include <functional>

#include "millrace/memory_space.h"
#include "strategy/sync_conditions.h"

namespace millrace::inline strategy {

struct MergeSettings {
  enum class Rule { kAdditive, kAverage, kElastic };

  // Periods in iterations of the solver, besides the conditions; 0: none. For kAdditive.
  int64_t fetch = 0, push = 0;
  Rule rule = Rule::kAdditive;
  double share = 0;  // kAverage: factor of a solver's progress; 0: 1 / number of solvers
  double pull = 0;   // kElastic
};

struct MergerConfig : MergeSettings {
  SyncConditions conditions;
};

// A moment of the run, as a solver sees it.
struct MergeTime {
  int64_t iterations = 0;  // completed, of all solvers
  double seconds = 0;      // since any origin
  int solvers = 1;         // that share the weights
};

// The solver's own weights, if a device has them.
class DeviceCopy {
 public:
  virtual ~DeviceCopy() = default;
  // Memory of the host for a copy of them.
  virtual MemorySpace& staging() = 0;
  // Copy all weights to and from `host`, when no work of the device's queues uses them any more.
  virtual void Read(float* host) = 0;
  virtual void Write(const float* host) = 0;
};

// Not thread-safe; others may change the shared weights.
class LocalMerger {
 public:
  // Calls its argument, work(begin, count), for all elements of the shared weights in blocks, each
  // under their lock if they have one.
  using Blocks = std::function<void(const std::function<void(int64_t begin, int64_t count)>& work)>;

  // `shared` has `size` elements. `device`: null if the solver's own weights are in memory of the
  // host; else weights() is a copy of them, which is made for a merge, and for conditions that read
  // weights. Both outlive this object. Call Begin before all else. Throws Error if there is not
  // enough memory.
  LocalMerger(float* shared, int64_t size, MergerConfig config, Blocks blocks,
              DeviceCopy* device = nullptr);

  // Copies the shared weights.
  void Begin(const MergeTime& now);
  // The solver's own weights, or the copy; constant address.
  float* weights() const { return weights_.get<float>(); }
  // The solver has completed an iteration, which `now` counts: merges if it is time.
  void Complete(const MergeTime& now);
  // Merges.
  void Flush(const MergeTime& now);
  // Own iterations whose progress the shared weights do not have.
  int64_t unmerged() const { return since_push_; }
  // Whether the progress of all solvers adds up, so that momentum has to look ahead as in Hogwild.
  // The other rules take the mean of solvers that each see fresh weights.
  bool is_additive() const { return config_.rule == MergeSettings::Rule::kAdditive; }

  // After Flush: what distinguishes the solver from one that begins with the shared weights.
  void ExportState(SolverPart* part) const;
  // After Begin. Throws Error if `stored` does not fit.
  void RestoreState(const StateReader& stored);

 private:
  void Clear();
  SyncState StateAt(const MergeTime& now) const;
  void Merge(const MergeTime& now);
  void Push(const MergeTime& now);
  void Fetch();
  // Before weights() is read, and after it was changed.
  void ReadDevice();
  void WriteDevice();

  float* const shared_;
  const int64_t size_;
  const MergerConfig config_;
  const Blocks blocks_;
  DeviceCopy* const device_;  // may be null
  const bool conditions_read_;
  const Buffer weights_, base_;
  bool current_ = true;  // whether weights_ holds what the device has
  int solvers_ = 1;      // the most that have been seen to share the weights
  int64_t since_merge_ = 0, since_push_ = 0, since_fetch_ = 0;  // own iterations
  MergeTime merged_;                                            // time of the last merge
};

// How a solver's own weights w and the shared weights s are merged, element by element. `base` is
// the value of w after the last merge.
//
//   Push(share):   u = w - base, the progress that s does not have; s = s + share u; base = w
//   Fetch:         w = s + (w - base); base = s. Progress that has not been pushed stays in w.
//   Elastic(pull): d = pull (w - s); s = s + d; w = w - d; base = w
//
// Elastic is the step of Zhang, Choromanska, LeCun ("Deep learning with Elastic Averaging SGD",
// NIPS 2015, algorithm 1), where the shared weights are the center variable.
//
// s changes by atomic additions: several solvers, also of several processes, lose nothing of each
// other. The caller holds the lock of the shared weights (base/threads/range_lock.h), which
// keeps exchanges with other machines apart. If nobody has changed s since it was fetched, Push
// makes it equal to w, so that a single solver trains as on the shared weights themselves, bit for
// bit.
//
// The arrays have `count` elements and do not overlap. `shared` may be changed by others.
void HogwildUpdatePush(float share, int64_t count, float* shared, const float* weights,
                       float* base);
void HogwildUpdateFetch(int64_t count, float* shared, float* weights, float* base);
void HogwildUpdateElastic(float pull, int64_t count, float* shared, float* weights, float* base);

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_LOCAL_MERGER_H_
