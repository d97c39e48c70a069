// Training iterations as graphs (device/work_graph.h): small nets spend most of their time on the
// launches of kernels.
#ifndef MILLRACE_SOLVER_PASS_GRAPHS_H_
#define MILLRACE_SOLVER_PASS_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/work_graph.h"
#include "nn/layers/layer_interfaces.h"
#include "nn/net.h"
#include "solver/iteration_update.h"
#include "solver/solver_config.h"

namespace millrace::inline solver {

// Enqueues the iterations of a solver: the passes of its net, and the update behind them where that
// is possible. The first two iterations, which allocate memory and load kernels, as they are; then
// it records the work of all layers behind the data layers, forward, backward and the update, as
// one graph, and from then on enqueues this. Data layers, which take batches from the host, are
// never recorded; their tops stay where they are. If the net's memory moves, it records again. A
// net of which a layer cannot be recorded is enqueued as it is; a line in the log names the layer.
//
// The host learns the loss when the forward pass has ended, and may enqueue the next iteration
// while this one's backward pass goes on. So with an update, there are two graphs of the same work,
// which take turns: the event that one of them waits for is set while the other one runs. With
// iter_size, the first pass, those between, and the last one are different work.
//
// Not thread-safe.
class PassGraphs {
 public:
  // Returns that of the net, which has it from then on; null if nothing is to be recorded on its
  // device (GpuSettings::graphs). `sums_gradients`: the solver acts on gradients while the backward
  // pass goes on.
  static PassGraphs* Of(BuiltNet* net, const SolverConfig& config, bool sums_gradients);

  // `net`, on a device with a recorder, outlives this object. `passes`: of an iteration. `why_not`:
  // nothing is to be recorded, for this reason; or "".
  PassGraphs(BuiltNet* net, int passes, const std::string& why_not);

  struct Enqueued {
    Event forward;  // the end of the forward pass: once reached, BuiltNet::Loss does not wait
    bool updates = false;  // whether the update is enqueued, too
  };
  // Enqueues pass `pass` of an iteration, forward and backward. The gradients have been cleared
  // before the first one. Behind the last one follows `update`, if it can be recorded. Throws Error
  // as the net's passes do.
  Enqueued Enqueue(int pass, IterationUpdate* update);

  // Why passes are enqueued as they are; "" if they are, or will be, recorded.
  const std::string& why_not() const { return why_not_; }
  // Passes that were enqueued as graphs, and those with an update.
  int64_t enqueued() const { return enqueued_; }
  int64_t updates() const { return updates_; }

 private:
  struct Turns {
    std::unique_ptr<WorkGraph> graphs[2];
    int next = 0;
  };

  // `update`: null if it is not recorded.
  WorkGraph* Next(int pass, IterationUpdate* update);
  // Null if that is not possible. `update`: null if none follows the pass.
  std::unique_ptr<WorkGraph> Record(int pass, IterationUpdate* update);
  Event EnqueueFrom(size_t first_node);
  void LogOnce(const IterationUpdate* update);
  // Where the arrays of the net lie.
  std::vector<const void*> Places() const;
  void GiveUp(const std::string& why);

  BuiltNet& net_;
  const int passes_;
  const GraphRecorders::Recorder recorder_;
  std::string why_not_;
  size_t first_ = 0;                     // the first node that is recorded
  std::vector<PreparesPass*> prepared_;  // recorded layers of this kind
  int64_t ordinary_ = 0;                 // passes that were enqueued as they are
  int64_t enqueued_ = 0, updates_ = 0;
  bool logged_ = false;
  // That the graphs use.
  std::vector<const void*> places_;
  uint64_t update_ = 0;                            // its number; 0: none
  std::map<std::pair<bool, bool>, Turns> graphs_;  // by whether the pass is the first, and the last
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_PASS_GRAPHS_H_
