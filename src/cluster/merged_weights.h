// Merged weights in an array of their own, which the periodic tests and snapshots of a cluster
// use: what the cluster has of each chunk as far as this node knows, without the progress of this
// node that no master has merged yet.
#ifndef MILLRACE_CLUSTER_MERGED_WEIGHTS_H_
#define MILLRACE_CLUSTER_MERGED_WEIGHTS_H_

#include <functional>
#include <memory>
#include <mutex>

#include "cluster/cluster.h"
#include "weights/param_layout.h"
#include "weights/weight_buffer.h"

namespace millrace {

// Copies `from`, which solvers and segments may write meanwhile, to as many floats at `to`.
void HogwildReadWeights(const WeightBuffer& from, float* to);

// Thread-safe.
class MergedWeights {
 public:
  // `weights`: of the node, laid out as `layout` says. The array is as large as these; its memory
  // is used from the first Read on. `cluster` and `weights` outlive this object.
  MergedWeights(Cluster* cluster, const WeightBuffer* weights, const ParamLayout& layout);

  // The array; its address never changes.
  float* data() const { return merged_->data(); }
  // Fills the array with the merged weights of this moment, then calls `use`; no other Read
  // changes it meanwhile. Where `stop` returns true before all are read, the rest are the node's.
  void Read(
      const std::function<bool()>& stop, const std::function<void()>& use = [] {});

 private:
  Cluster& cluster_;
  const WeightBuffer& weights_;
  const std::unique_ptr<WeightBuffer> merged_;
  std::mutex mutex_;
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_MERGED_WEIGHTS_H_
