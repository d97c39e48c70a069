// A node's view of its cluster: the segments that work on its weight array, and the iteration clock
// of the whole cluster.
#ifndef MILLRACE_CLUSTER_CLUSTER_H_
#define MILLRACE_CLUSTER_CLUSTER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "segment/gossip/gossip_store.h"
#include "segment/net_segment.h"
#include "segment/segment_thread.h"
#include "topology/topology.h"
#include "weights/iteration_clock.h"

namespace millrace::inline cluster {

// A segment that is ready to start.
struct ClusterSegment {
  std::unique_ptr<NetSegment> net;
  SegmentThreadOptions thread;
  // Iterations are counted on this segment. True for the segments that carry weight 0, which join
  // all nodes as a tree. The other segments only carry weights.
  bool counts = true;
  // This node is the segment's gateway towards node 0.
  bool above = false;
  // First weight of the segment's range.
  int64_t begin = 0;
  WeightRange range() const { return {begin, begin + net->floats()}; }
};

// Iterations [first, end) that other nodes completed.
struct IterationRange {
  int64_t first = 0, end = 0;
  // True if the range contains a multiple of `interval`; false if `interval` is 0.
  bool HoldsMultiple(int64_t interval) const {
    return interval > 0 && first < end && (end - 1) / interval * interval >= first;
  }
  // The largest multiple of `interval` in the range. Requires HoldsMultiple(interval).
  int64_t LastMultiple(int64_t interval) const { return (end - 1) / interval * interval; }
};

// Thread-safe.
class Cluster {
 public:
  // `start`: iteration of this node's own weights; it is used only if the run bootstraps with them.
  // `gossip`: the store with which the counting segments were created; null for a cluster without
  // gossip. `registry`: has the metrics of the segments; null if they have registries of their own.
  // All plain pointers outlive the cluster.
  Cluster(std::vector<ClusterSegment> segments, int64_t start, IterationClock* iterations,
          const Clock* clock, ErrorSink* sink, std::shared_ptr<GossipStore> gossip = nullptr,
          std::shared_ptr<MetricsRegistry> registry = nullptr);
  // Stops all segments at once. Call Leave() first for a graceful leave.
  ~Cluster();

  // Throws Error if the other nodes refuse this node before it has joined: "segment lan: node b has
  // another net: ...".
  void ThrowIfRefused() const;
  // This node has been in sync and its clock is set, so it may train.
  bool begun();
  // This node is in sync on every segment.
  bool in_sync() const;
  // The run was bootstrapped with this node's weights.
  bool bootstrapped() const;
  // This node is the leader: the one member that tests and takes the cluster's snapshots.
  bool is_leader() const;
  // No segment has another member.
  bool alone() const;
  // Whether any segment takes a smaller share of stale progress (exchange/protocol/damping.h).
  bool damps() const;
  // No frame of another node arrived for 4 heartbeat intervals on any segment, not even from nodes
  // that have left. So no peer waits for a reply any more.
  bool idle() const;
  // A leaving node waits while this is true: other members use this node as their gateway, or this
  // node is the leader and other members remain.
  bool has_dependents() const;
  // Members of the first segment, including this node.
  uint32_t members() const { return segments_.front().net->state().members(); }
  // Cluster iterations between two exchanges of the first segment: SegmentState::staleness.
  float staleness() const { return segments_.front().net->state().staleness(); }

  // In an elastic cluster (NodePlan::is_elastic): the run begins with this node's weights, unless
  // it has begun.
  void AllowBootstrap();
  // From now on node `peer` has this address on segments()[segment] (Transport::SetPeerAddress).
  void SetPeerAddress(size_t segment, NodeId peer, const std::string& address);

  // For use after the solvers have ended: all segments send the remaining progress exactly
  // (Exchange::Flush).
  void Flush();
  // Requests a graceful leave on all segments. left() becomes true when it is complete.
  void Leave();
  bool left() const;
  // The other nodes have all progress of this node.
  bool delivered() const;
  // No segment has a diff, a reply or a takeover outstanding, as far as this node knows.
  bool settled() const;
  // Frames of other nodes that were dropped because a value in them was not finite.
  uint64_t non_finite() const;

  // Writes the merged weights to `to`, which has the layout of the weight array. For a chunk that
  // another node masters, the merged weights are the master's weights as this node last received
  // them (segment/merged_reader.h). All other elements of `to` keep their values; the caller fills
  // `to` with a copy of this node's weights first. Where segments overlap, the segment towards node
  // 0 takes precedence. Blocks until the segments' threads have served the requests, or until
  // `stop` returns true. Returns true if every segment was read completely; on false, a part of
  // `to` may be merged.
  bool ReadMerged(float* to, const std::function<bool()>& stop);

  // Merges by the segments into this node's weights so far.
  uint64_t merges() const;
  // Counts merges into all of this node's weights by links to its other replicas
  // (cluster/device_link.h). The segments pass them on to the other nodes.
  void AddOutsideMerges(uint64_t count) { outside_merges_ += count; }

  // Iterations that other nodes completed since the last call, ascending.
  std::vector<IterationRange> TakeRemoteIterations();

  // ---- Gossip: small messages to all other nodes (docs/gossip.md). ----

  // Replaces this node's message on `key` and distributes it to every other node. Only the newest
  // message is guaranteed to arrive. Does not block. Works at any time, including while the node
  // joins and after it has left. Throws Error for more than kMaxGossipBytes bytes.
  void Publish(GossipKey key, std::span<const std::byte> bytes);
  // The newest message on `key` of every node that published one, ascending by node, including
  // this node. A restarted node's messages from earlier incarnations are left out.
  std::vector<GossipMessage> Read(GossipKey key) const;
  // The other members of all segments have acknowledged all messages that this node has published
  // or forwarded so far.
  bool all_acked() const;
  // This node's id: its index in the topology.
  NodeId node() const;

  const std::vector<ClusterSegment>& segments() const { return segments_; }
  const std::shared_ptr<MetricsRegistry>& registry() const { return registry_; }
  // Processor time that the thread of segments()[i] has used, in ns.
  int64_t segment_cpu_ns(size_t i) const { return threads_[i]->cpu_ns(); }

  // Transfers iteration counts between the segments and the clock. Called by the segments' threads.
  void Count();

 private:
  void AllowBootstrapBelow();
  bool Begin(uint64_t beyond);
  void ForwardMerges();
  static bool ReadMerged(ClusterSegment* segment, float* to, const std::function<bool()>& stop);

  const std::shared_ptr<MetricsRegistry> registry_;  // outlives the segments
  std::vector<ClusterSegment> segments_;
  const int64_t start_;
  IterationClock& iterations_;
  const Clock& clock_;
  const std::shared_ptr<GossipStore> gossip_;  // null: no gossip
  std::mutex mutex_;
  std::vector<uint64_t> others_;  // by segment: iterations of the nodes reached through it
  std::vector<uint64_t> merges_;  // by segment: merges as last forwarded to the other segments
  std::atomic<uint64_t> outside_merges_{0};
  bool begun_ = false;
  uint64_t own_start_ = 0;
  uint64_t counted_ = 0;  // the part of others_ that the clock has received
  std::vector<IterationRange> unreported_;
  std::mutex reading_;  // held while merged weights are read
  std::vector<std::unique_ptr<SegmentThread>> threads_;
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_CLUSTER_H_
