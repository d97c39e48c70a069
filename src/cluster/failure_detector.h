// Detects which peers of this node are alive, from the frames that arrive. The timeouts are those
// of each segment (peer_timeout_ms, heartbeat_ms).
#ifndef MILLRACE_CLUSTER_FAILURE_DETECTOR_H_
#define MILLRACE_CLUSTER_FAILURE_DETECTOR_H_

#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster.h"
#include "millrace/node_id.h"

namespace millrace::inline cluster {

// Which peers count as responsive.
enum class Recency {
  kInTime,  // a frame arrived within the segment's peer timeout
  // A frame arrived within half of the peer timeout, but at least two heartbeat intervals: for
  // decisions that must not count on a peer which has just died.
  kLately,
};

// Not thread-safe.
class FailureDetector {
 public:
  // Both pointers outlive this object. The cluster has gossip.
  FailureDetector(const Cluster* cluster, const Clock* clock);

  // Samples the frame counts of all peers, at most every 100 ms, and logs peers that become
  // unresponsive or responsive again, and those that have left. Call it regularly: frames that
  // arrived since the previous sample count as received now.
  void Listen();
  // Responsive peers on this node's segments, ascending (accuracy: the interval between Listen
  // calls, at least 100 ms).
  std::vector<NodeId> ResponsivePeers(Recency recency);

 private:
  struct PeerActivity {
    uint64_t frames = 0;
    int64_t last_ns = 0;  // when `frames` last grew
    bool silent = false;  // no frames for the peer timeout
    bool left = false;    // silent, after it had published that it leaves
  };

  // Whether the newest end state that `node` has published says that it leaves.
  bool HasLeft(NodeId node) const;

  const Cluster& cluster_;
  const Clock& clock_;
  int64_t next_ns_ = 0;
  std::map<std::pair<size_t, NodeId>, PeerActivity> activity_;  // by segment and node
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_FAILURE_DETECTOR_H_
