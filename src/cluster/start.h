// Starts a node's segments as its plan says.
#ifndef MILLRACE_CLUSTER_START_H_
#define MILLRACE_CLUSTER_START_H_

#include <cstdint>
#include <memory>

#include "base/thread_load.h"
#include "cluster/cluster.h"
#include "segment/replica_device.h"
#include "topology/plan.h"
#include "topology/topology.h"

namespace millrace {

// The node of a segment that is nearest to node 0, through which the segment gets the weights.
NodeId GatewayOf(const Topology& topology, size_t segment);
// Whether a run may begin with the weights that `node` brings to a segment whose GatewayOf() is
// `top`. Weights come down the tree of segments from node 0: every node of its segments may
// begin, so that the first to start need not wait for it; of any other segment only the top.
bool CanBootstrap(NodeId top, NodeId node);

// What a cluster works on; all of it outlives the cluster.
struct ClusterReplica {
  float* weights = nullptr;
  int64_t size = 0;            // floats
  uint64_t layout_digest = 0;  // ParamLayout::Digest()
  int64_t start = 0;           // the iteration that these weights are of
  IterationClock* iterations = nullptr;
  const Clock* clock = nullptr;
  ErrorSink* sink = nullptr;
  ReplicaDevice home = HostReplica();  // where the weights lie
  // The solvers on them; null: segments leave nobody a processor.
  const ThreadLoad* solvers = nullptr;
};

// Throws Error with one line that names the segment.
std::unique_ptr<Cluster> StartCluster(const Topology& topology, const NodePlan& plan,
                                      const ClusterReplica& replica);

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_START_H_
