// Training passes as graphs (device/work_graph.h): small nets spend most of their time on the
// launches of kernels.
#ifndef MILLRACE_SOLVER_PASS_GRAPHS_H_
#define MILLRACE_SOLVER_PASS_GRAPHS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "device/work_graph.h"
#include "millrace/export.h"
#include "nn/layers/pass_preparation.h"
#include "nn/net.h"
#include "solver/solver_config.h"

namespace millrace::inline solver {

// Of the solvers of this process from now on: whether they record their passes where they can. At
// first they do not. Thread-safe.
MILLRACE_API void SetPassGraphs(bool wanted);
// "auto" or "off", of --cuda_graphs. Throws Error for another text.
MILLRACE_API bool ParsePassGraphs(const std::string& text);

// Enqueues the passes of a net. The first two, which allocate memory and load kernels, as they are;
// then it records the work of all layers behind the data layers, forward and backward, and from
// then on enqueues these two graphs. Data layers, which take batches from the host, are never
// recorded; their tops stay where they are. If the net's memory moves, it records again. A net of
// which a layer cannot be recorded is enqueued as it is; a line in the log names the layer. Not
// thread-safe.
class MILLRACE_API PassGraphs {
 public:
  // Of the net, which has it from then on; null if passes are not recorded. `sums_gradients`: the
  // solver acts on gradients while the backward pass goes on.
  static PassGraphs* Of(BuiltNet* net, const SolverConfig& config, bool sums_gradients);

  // `net`, on a device with a recorder, outlives this object. `why_not`: nothing is to be recorded,
  // for this reason; or "".
  PassGraphs(BuiltNet* net, const std::string& why_not);

  // Enqueues a forward and a backward pass of the net, whose gradients have been cleared. Returns
  // the end of the forward pass: once it is reached, BuiltNet::Loss does not wait. Throws Error as
  // the net's passes do.
  Event Enqueue();

  // Why passes are enqueued as they are; "" if they are, or will be, recorded.
  const std::string& why_not() const { return why_not_; }

 private:
  bool Record();
  Event EnqueueAsItIs();
  // Where the arrays of the net lie.
  std::vector<const void*> Places() const;
  void GiveUp(const std::string& why);

  BuiltNet& net_;
  const GraphRecorders::Recorder recorder_;
  std::string why_not_;
  size_t first_ = 0;                     // the first node that is recorded
  std::vector<PreparesPass*> prepared_;  // recorded layers of this kind
  int passes_ = 0;
  std::vector<const void*> places_;  // that the graphs use
  std::unique_ptr<WorkGraph> forward_, backward_;
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_PASS_GRAPHS_H_
