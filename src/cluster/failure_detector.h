// Which nodes of a cluster this one hears.
#ifndef MILLRACE_CLUSTER_FAILURE_DETECTOR_H_
#define MILLRACE_CLUSTER_FAILURE_DETECTOR_H_

#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"
#include "base/node_id.h"
#include "cluster/cluster.h"

namespace millrace {

// Not thread-safe.
class FailureDetector {
 public:
  // Both outlive this object.
  FailureDetector(const Cluster* cluster, const Clock* clock);

  static constexpr int64_t kAnyRecent = INT64_MAX;

  // Notes who was heard, and logs who is no more, or is again; to be called now and then, else
  // Heard() knows only what it finds.
  void Listen();
  // The nodes on this node's segments of which frames came lately, and within `within_ns` (give
  // or take 100 ms), or have come at all if nobody has listened since; ascending.
  std::vector<NodeId> Heard(int64_t within_ns);

 private:
  struct PeerActivity {
    uint64_t frames = 0;
    int64_t last_ns = 0;        // when there were more of them
    bool unresponsive = false;  // for so long that it counts as gone
  };

  const Cluster& cluster_;
  const Clock& clock_;
  int64_t next_ns_ = 0;
  std::map<std::pair<size_t, NodeId>, PeerActivity> activity_;  // by segment and node
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_FAILURE_DETECTOR_H_
