// This machine's part of a cluster: its segments at work on one weight array, and
// the clock that all machines share.
#ifndef MILLRACE_CLUSTER_CLUSTER_H_
#define MILLRACE_CLUSTER_CLUSTER_H_

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

namespace millrace {

// One segment, ready to be started.
struct ClusterSegment {
  std::unique_ptr<NetSegment> net;
  SegmentThreadOptions thread;
  // Iterations are counted through it: so they are through all segments that carry
  // the first weight, which join the nodes as a tree. Others only move weights.
  bool counts = true;
  // This node is the one through which the others of the segment reach node 0.
  bool above = false;
  // The first weight of its range.
  int64_t begin = 0;
  WeightRange range() const { return {begin, begin + net->floats()}; }
};

// Iterations [first, end) that were done on other machines.
struct IterationRange {
  int64_t first = 0, end = 0;
  // Whether it has a multiple of `interval`; 0 has none.
  bool HoldsMultiple(int64_t interval) const {
    return interval > 0 && first < end && (end - 1) / interval * interval >= first;
  }
  // The last one; there must be one.
  int64_t LastMultiple(int64_t interval) const { return (end - 1) / interval * interval; }
};

// Thread-safe.
class Cluster {
 public:
  // `start`: the iteration that this node's own weights are of, which counts if the
  // run begins with them. All pointers outlive the cluster.
  // `gossip messages`: what the segments that count were made with; null for a cluster without.
  Cluster(std::vector<ClusterSegment> segments, int64_t start, IterationClock* iterations,
          const Clock* clock, ErrorSink* sink, std::shared_ptr<GossipStore> gossip = nullptr);
  // Ends all segments at once; Leave() first, to go in order.
  ~Cluster();

  // Throws Error if the others refuse this node, which has not joined yet: "segment lan:
  // node b has another net: ...".
  void ThrowIfRefused() const;
  // This node has been in sync, and its clock is set: it may train.
  bool begun();
  // All replicas of this node are those of the run.
  bool in_sync() const;
  // The run began with this node's weights.
  bool bootstrapped() const;
  // Of the members, exactly one does what is to be done once: tests and snapshots.
  bool is_leader() const;
  // No other node is left on any segment.
  bool alone() const;
  // Nothing is heard of others any more, not even of those that have left: these know
  // that they may go.
  bool quiet() const;
  // A node that stops waits for these before it goes: others send through this node, or
  // it leads the run and others go on.
  bool has_dependents() const;
  // Nodes on the first segment, this one included.
  uint32_t members() const { return segments_.front().net->state().members(); }

  // The solvers have ended: all segments send what is left exactly (Exchange::Flush).
  void Flush();
  // Asks all segments to go on without this node; left() is true in the end.
  void Leave();
  bool left() const;
  // Everything that this node did is with the others.
  bool delivered() const;

  // Writes to `to`, an array laid out as the weights are, the merged weights: where another node
  // masters a chunk, its weights as this node last saw them (segment/merged_reader.h). All other
  // weights of `to`, which the caller fills with a copy of this node's before, stay as they are.
  // In a tree of segments the one towards node 0 decides. Waits for the segments' threads, until
  // `stop` returns true. True: every segment was read; else a part of `to` may be.
  bool ReadMerged(float* to, const std::function<bool()>& stop);

  // Iterations done elsewhere since the last call, in ascending order.
  std::vector<IterationRange> TakeRemoteIterations();

  // ---- Gossip messages: small messages to all other nodes (docs/gossip.md). ----

  // Every other node of the cluster will have this as the newest that this one says on
  // `topic`; what it said before may never arrive. At most kMaxGossipBytes, else throws
  // Error. Returns at once; works from the start of the cluster to its end, also while this
  // node joins and after it has left.
  void Publish(GossipKey topic, std::span<const std::byte> bytes);
  // The newest on `topic` of each node that was heard to say something, by node, this one
  // included. Of a node that was started anew only what it has said since.
  std::vector<GossipMessage> Read(GossipKey topic) const;
  // The other members of all segments have sent acknowledgements for what was published or passed
  // on until now.
  bool all_acked() const;
  // This node's id, which is its place in the topology.
  NodeId node() const;

  const std::vector<ClusterSegment>& segments() const { return segments_; }
  // Processor time that the thread of segments()[i] has used so far, in ns.
  int64_t segment_cpu_ns(size_t i) const { return threads_[i]->cpu_ns(); }

  // Moves the counts between segments and clock. Called by the segments' threads.
  void Count();

 private:
  void LetWeightsDown();
  bool Begin(uint64_t beyond);
  void PassOnMerges();
  static bool ReadMerged(ClusterSegment* segment, float* to, const std::function<bool()>& stop);

  std::vector<ClusterSegment> segments_;
  const int64_t start_;
  IterationClock& iterations_;
  const Clock& clock_;
  const std::shared_ptr<GossipStore> gossip_;  // null: none
  std::mutex mutex_;
  std::vector<uint64_t> others_;  // by segment: iterations of the nodes beyond it
  std::vector<uint64_t> merges_;  // by segment, as last told to the others
  bool begun_ = false;
  uint64_t own_start_ = 0;
  uint64_t counted_ = 0;  // of others_, what the clock was told
  std::vector<IterationRange> untold_;
  std::mutex reading_;  // held by the one that reads merged weights
  std::vector<std::unique_ptr<SegmentThread>> threads_;
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_CLUSTER_H_
