// Interface of a sync condition: when a solver that trains on weights of its own merges them with
// the shared ones (docs/learning.md). A solver file names any number of them; the solver merges
// when any of them fires.
//
//   strategy { type: "local" sync_condition { type: "steps" param { key: "every" value: 10 } } }
//
// A condition of one's own:
//
//   class MyCondition : public millrace::SyncCondition {
//    public:
//     explicit MyCondition(double most) : most_(most) {}
//     bool Fires(const millrace::SyncState& state) override { return state.seconds >= most_; }
//     ...
//   };
//   const millrace::RegisterSyncCondition registered(
//       {.name = "mine", .parameters = {{.name = "most", .default_value = 1, .most = 60}}},
//       [](const millrace::PartValues& values) {
//         return std::make_unique<MyCondition>(values.at("most"));
//       });
#ifndef MILLRACE_SYNC_CONDITION_H_
#define MILLRACE_SYNC_CONDITION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "millrace/export.h"
#include "millrace/part.h"

namespace millrace {

// A solver after an iteration. "The last merge" is the start of the solver before its first merge.
struct SyncState {
  int64_t iterations = 0;         // of this solver since the last merge, at least 1
  int64_t shared_iterations = 0;  // of all solvers of the run since then, this solver's included
  double seconds = 0;             // since then
  // The solver's weights, in the order of the net's layout and with zeros between arrays, and what
  // they were after the last merge. Both are in host memory, of the same length, valid during the
  // call; no other thread writes them. They may be empty if ReadsWeights is false.
  std::span<const float> weights = {}, base = {};
};

// One instance belongs to one solver, whose thread makes and calls it.
class MILLRACE_API SyncCondition {
 public:
  virtual ~SyncCondition() = default;
  // Whether the other functions read the weights in the state. A solver on a GPU then copies its
  // weights to the host after each iteration.
  virtual bool ReadsWeights() const { return true; }
  // Whether the solver has to merge now. Called after each iteration; does not throw.
  virtual bool Fires(const SyncState& state) = 0;
  // The solver merges: this condition, another one, a snapshot or the end of the run asked for it.
  // `state` is that before the merge; its iterations may be 0.
  virtual void Merging(const SyncState& state) { (void)state; }
  // What the condition has learned, for snapshots: always as many numbers, all finite. A run that
  // continues one gives them to Restore of a new condition.
  virtual std::vector<double> State() const { return {}; }
  virtual void Restore(std::span<const double> state) { (void)state; }
};

// Gets complete, checked values. Throws Error in one line if they contradict each other.
using SyncConditionFactory =
    std::function<std::unique_ptr<SyncCondition>(const PartValues& values)>;

// Registers a condition. Define one at namespace scope. The first condition of a name stays. A
// second one, or a descriptor with a mistake, is an error when plugins are loaded and when a
// session or run starts.
struct MILLRACE_API RegisterSyncCondition {
  RegisterSyncCondition(PartDescriptor descriptor, SyncConditionFactory make);
};

}  // namespace millrace

#endif  // MILLRACE_SYNC_CONDITION_H_
