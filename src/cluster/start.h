// Starts a node's segments according to its plan.
#ifndef MILLRACE_CLUSTER_START_H_
#define MILLRACE_CLUSTER_START_H_

#include <cstdint>
#include <memory>

#include "base/threads/thread_load.h"
#include "cluster/cluster.h"
#include "segment/replica_device.h"
#include "topology/plan.h"
#include "topology/topology.h"

namespace millrace::inline cluster {

// The gateway of a segment: its node nearest to node 0, through which the segment gets the weights.
NodeId GatewayOf(const Topology& topology, size_t segment);
// Whether `node` may bootstrap the run on a segment whose GatewayOf() is `top`. Weights spread from
// node 0 down the tree of segments. On the segments of node 0 every node may bootstrap, so that the
// first node to start need not wait for node 0. On any other segment only the gateway may.
bool CanBootstrap(NodeId top, NodeId node);

// The replica that a cluster works on. All pointers outlive the cluster.
struct ClusterReplica {
  float* weights = nullptr;
  int64_t size = 0;            // floats
  uint64_t layout_digest = 0;  // ParamLayout::Digest()
  uint32_t max_iter = 0;       // CompatibilityInfo::max_iter
  uint32_t examples = 0;       // ExchangeConfig::examples
  int64_t start = 0;           // iteration of these weights
  IterationClock* iterations = nullptr;
  const Clock* clock = nullptr;
  ErrorSink* sink = nullptr;
  ReplicaDevice replica_device = HostReplica();  // memory of the weights
  // The solvers on these weights; null: segments do not yield processor time to solvers.
  const ThreadLoad* solvers = nullptr;
  // Gets the metrics of the segments and outlives the cluster; null: a registry of their own.
  MetricsRegistry* registry = nullptr;
};

// Creates and starts the segments of `plan`. Throws Error with one line that names the segment.
std::unique_ptr<Cluster> StartCluster(const Topology& topology, const NodePlan& plan,
                                      const ClusterReplica& replica);

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_START_H_
