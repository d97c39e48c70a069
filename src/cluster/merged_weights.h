// A separate array of merged weights, for the periodic tests and snapshots of a cluster. Merged
// weights are the masters' weights as this node last received them, without the progress of this
// node that no master has merged yet.
#ifndef MILLRACE_CLUSTER_MERGED_WEIGHTS_H_
#define MILLRACE_CLUSTER_MERGED_WEIGHTS_H_

#include <functional>
#include <memory>
#include <mutex>

#include "cluster/cluster.h"
#include "weights/param_layout.h"
#include "weights/weight_buffer.h"
#include "weights/weight_reader.h"

namespace millrace::inline cluster {

// Thread-safe.
class MergedWeights {
 public:
  // `weights`: this node's, with the layout `layout`. The array has the same size; its memory is
  // first touched by Read. `cluster` and the weights outlive this object.
  MergedWeights(Cluster* cluster, WeightReader weights, const ParamLayout& layout);

  // The array. Its address never changes.
  float* data() const { return merged_->data(); }
  // Fills the array with the current merged weights, then calls `use`. No other Read changes the
  // array until `use` returns. If `stop` returns true first, or a segment has failed, the elements
  // not yet read hold this node's own weights: `use` is not called and the result is false.
  bool Read(
      const std::function<bool()>& stop, const std::function<void()>& use = [] {});

 private:
  Cluster& cluster_;
  const WeightReader weights_;
  const std::unique_ptr<WeightBuffer> merged_;
  std::mutex mutex_;
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_MERGED_WEIGHTS_H_
