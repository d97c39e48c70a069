// Reassigns the data shards of absent nodes to the nodes that are present. Pure logic on injected
// peers and time.
//
// Each node publishes which peers it receives frames from. The nodes that are present are the
// transitive closure of these sets from this node. Connected nodes therefore agree within moments,
// and each part of a partitioned cluster reads all data. The records that a node reads follow from
// the set of absent shards alone (data/schedule.h), so no node waits for another.
#ifndef MILLRACE_CLUSTER_SHARD_TAKEOVER_H_
#define MILLRACE_CLUSTER_SHARD_TAKEOVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster_peers.h"
#include "millrace/node_id.h"

namespace millrace::inline cluster {

// Not thread-safe.
class ShardTakeover {
 public:
  // A node and the data shard that it reads. Indexed by node id; each shard belongs to one node.
  struct Reader {
    std::string name;
    uint64_t shard = 0;
  };
  // kMissingNs: time that a node is missing before it counts as absent, from the moment at which it
  // is unresponsive (cluster/failure_detector.h). kStartNs: the same for a node that was never
  // present, from the start.
  static constexpr int64_t kMissingNs = 1'000'000'000, kStartNs = 10'000'000'000;

  // `apply` receives the absent shards, ascending, at the first Poll and after each change. Both
  // pointers outlive this object.
  ShardTakeover(ClusterPeers* peers, std::vector<Reader> readers,
                std::function<void(const std::vector<uint64_t>& absent)> apply, const Clock* clock);

  // Publishes the responsive peers, reads the other nodes' messages, and logs changes. Call it
  // every few ms; it acts every 100 ms.
  void Poll();

 private:
  // Which nodes are present, by node id. `published_` is set.
  std::vector<bool> PresentNodes() const;
  void Log(const std::vector<bool>& absent) const;

  ClusterPeers& peers_;
  const std::vector<Reader> readers_;
  const std::function<void(const std::vector<uint64_t>&)> apply_;
  const Clock& clock_;
  std::optional<int64_t> polled_ns_;
  std::optional<std::string> published_;  // bitmap of the responsive peers of this node
  // By node: when it was last present; initially start + kStartNs - kMissingNs.
  std::vector<int64_t> present_ns_;
  std::vector<bool> absent_;  // by node
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_SHARD_TAKEOVER_H_
