// Decides which node of a cluster writes a snapshot: the leader at the time at which the snapshot
// is due. If that leader dies before it has written the snapshot, or there is no leader at that
// time, the next leader writes one instead, of its current iteration.
//
// Each node publishes the iteration of the newest model that it has written. So every node knows
// whether the last snapshot that was due on another node exists.
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
#include "cluster/cluster_peers.h"

namespace millrace::inline cluster {

// Thread-safe.
class SnapshotDuty {
 public:
  // Interval at which a node other than the leader reads the gossip messages while a snapshot is
  // due.
  static constexpr int64_t kReadNs = 100'000'000;

  // Both pointers outlive this object.
  SnapshotDuty(ClusterPeers* peers, const Clock* clock);

  // A snapshot is due at `iteration`, and another node is to write it.
  void ExpectSnapshot(int64_t iteration);
  // This node has opened a snapshot of `iteration` that includes the model.
  void OnOpened(int64_t iteration);
  // This node has written the model of `iteration`.
  void OnWritten(int64_t iteration);
  // Whether this node is the leader and a due snapshot is not known to exist. One atomic load while
  // no snapshot is due.
  bool IsDue();
  // Iteration of the last due snapshot that no node is known to have written; 0: none.
  int64_t due() const { return due_; }

 private:
  void Clear(int64_t iteration);

  ClusterPeers& peers_;
  const Clock& clock_;
  std::atomic<int64_t> due_{0};
  std::mutex mutex_;          // guards the members below, and changes of due_
  int64_t next_read_ns_ = 0;  // earliest next read unless this node is the leader
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_SNAPSHOT_DUTY_H_
