// Which node of a cluster writes a snapshot: the leader when it falls due. Where the leader dies
// before it has written it, or nobody leads at that moment, the next leader makes up for it, once,
// with a snapshot of the iteration that it has come to by then.
//
// A node tells the others the iteration of the newest model that it has written. So each knows
// whether one was written since the last that fell due while it did not lead.
#ifndef MILLRACE_CLUSTER_SNAPSHOT_DUTY_H_
#define MILLRACE_CLUSTER_SNAPSHOT_DUTY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster.h"

namespace millrace {

// What SnapshotDuty asks a cluster for; tests put another in its place.
struct DutyPeers {
  std::function<void(std::span<const std::byte>)> publish;
  std::function<std::vector<GossipMessage>()> read;  // of all nodes
  std::function<bool()> is_leader;
};
// `cluster` outlives it.
DutyPeers DutyPeersOf(Cluster* cluster);

// Thread-safe.
class SnapshotDuty {
 public:
  // How often a node that does not lead reads the others' gossip messages while a snapshot is owed.
  static constexpr int64_t kReadNs = 100'000'000;

  // `clock` outlives this object.
  SnapshotDuty(DutyPeers peers, const Clock* clock);

  // A snapshot has fallen due at `iteration`, and is another node's to write.
  void FellDue(int64_t iteration);
  // This node has opened one of `iteration` with a model.
  void Opened(int64_t iteration);
  // This node has written the model of `iteration`.
  void Wrote(int64_t iteration);
  // Whether this node leads, and no node has written what fell due. One atomic load while nothing
  // is owed.
  bool Owes();
  // The last one that fell due and that no node is known to have written; 0: none.
  int64_t owed() const { return owed_; }

 private:
  void Settle(int64_t iteration);

  const DutyPeers peers_;
  const Clock& clock_;
  std::atomic<int64_t> owed_{0};
  std::mutex mutex_;          // of what follows, and of changes to owed_
  int64_t next_read_ns_ = 0;  // not before that, unless this node leads
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_SNAPSHOT_DUTY_H_
