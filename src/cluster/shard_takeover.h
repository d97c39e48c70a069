// Which shards of the data nobody reads, because their nodes are gone: the nodes that are there
// read them. Pure logic on injected peers and time.
//
// Each node tells the others whom it hears on its segments. A node is there if this one hears it,
// or one that is there does; so nodes that are joined agree within moments, and those of a cluster
// that is divided each take all data. What a node reads follows from who is there alone
// (data/schedule.h), and nobody waits for anybody.
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
#include "base/node_id.h"
#include "cluster/cluster.h"
#include "cluster/failure_detector.h"

namespace millrace {

// What ShardTakeover asks a cluster for; tests put another in its place.
struct PresencePeers {
  NodeId self = 0;
  std::function<void(std::span<const std::byte>)> publish;
  std::function<std::vector<GossipMessage>()> read;  // of all nodes
  std::function<std::vector<NodeId>()> heard;        // on this node's segments, lately
};
// Both outlive it.
PresencePeers PresencePeersOf(Cluster* cluster, FailureDetector* neighbours);

// Not thread-safe.
class ShardTakeover {
 public:
  // Of each node, by its id; every shard has one.
  struct Reader {
    std::string name;
    uint64_t shard = 0;
  };
  // A node that was there is absent when it has been missing for so long, which begins when it
  // counts as silent (cluster/failure_detector.h); one that never was, so long after the start.
  static constexpr int64_t kMissingNs = 1'000'000'000, kStartNs = 10'000'000'000;

  // `apply` is called with the absent shards, ascending, at the first Look and whenever they
  // change. `clock` outlives this object.
  ShardTakeover(PresencePeers peers, std::vector<Reader> readers,
                std::function<void(const std::vector<uint64_t>& absent)> apply, const Clock* clock);

  // Tells the others whom this node hears, hears them, and logs what changes. To be called every
  // few ms; acts ten times a second.
  void Look();

 private:
  // By node.
  std::vector<bool> There() const;
  void Log(const std::vector<bool>& absent) const;

  const PresencePeers peers_;
  const std::vector<Reader> readers_;
  const std::function<void(const std::vector<uint64_t>&)> apply_;
  const Clock& clock_;
  std::optional<int64_t> looked_ns_;
  std::vector<NodeId> heard_;  // by this node
  std::optional<std::string> published_;
  std::vector<int64_t> there_ns_;  // by node: when it was there last, or later if it never was
  std::vector<bool> absent_;       // by node
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_SHARD_TAKEOVER_H_
