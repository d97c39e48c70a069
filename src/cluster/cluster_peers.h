// What the state machines of a node's life see of its cluster: gossip, membership, and the progress
// of the exchange. Tests simulate it (test/sim/fake_peers.h).
#ifndef MILLRACE_CLUSTER_CLUSTER_PEERS_H_
#define MILLRACE_CLUSTER_CLUSTER_PEERS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/failure_detector.h"
#include "millrace/node_id.h"

namespace millrace::inline cluster {

// The functions do not block. All but ResponsivePeers are thread-safe.
class ClusterPeers {
 public:
  virtual ~ClusterPeers() = default;

  // This node's id.
  virtual NodeId self() const = 0;

  // ---- Gossip ----

  // Replaces this node's message on `key`.
  virtual void Publish(GossipKey key, std::span<const std::byte> bytes) = 0;
  // The newest message on `key` of every node that published one, this node's included.
  virtual std::vector<GossipMessage> Read(GossipKey key) const = 0;
  // The other members have acknowledged all messages that this node has published or forwarded.
  virtual bool all_acked() const = 0;

  // ---- Membership ----

  // Responsive peers on this node's segments, ascending. For one thread at a time.
  virtual std::vector<NodeId> ResponsivePeers(Recency recency) = 0;
  // This node has the run's weights.
  virtual bool begun() const = 0;
  virtual bool is_leader() const = 0;
  // Other members use this node as their gateway, or it is the leader and others remain.
  virtual bool has_dependents() const = 0;
  // No segment has another member.
  virtual bool alone() const = 0;
  // Members of the first segment, including this node.
  virtual uint32_t members() const = 0;
  // No peer waits for a reply of this node any more.
  virtual bool idle() const = 0;

  // ---- Exchange ----

  // Merges into this node's weights so far.
  virtual uint64_t merges() const = 0;
  // Sends this node's remaining progress exactly. After the solvers have ended.
  virtual void Flush() = 0;
  // Requests a graceful leave; left() becomes true when it is complete.
  virtual void Leave() = 0;
  virtual bool left() const = 0;
  // The other nodes have all progress of this node.
  virtual bool delivered() const = 0;
  // No progress of this node is on its way to the others, and none of theirs waits here for an
  // answer.
  virtual bool settled() const = 0;
  // Frames of other nodes that were dropped here because a value in them was not finite.
  virtual uint64_t non_finite() const = 0;
};

// The peers of a running cluster.
class LiveClusterPeers : public ClusterPeers {
 public:
  // Both outlive this object.
  LiveClusterPeers(Cluster* cluster, FailureDetector* failure_detector)
      : cluster_(*cluster), failure_detector_(*failure_detector) {}

  NodeId self() const override { return cluster_.node(); }
  void Publish(GossipKey key, std::span<const std::byte> bytes) override {
    cluster_.Publish(key, bytes);
  }
  std::vector<GossipMessage> Read(GossipKey key) const override { return cluster_.Read(key); }
  bool all_acked() const override { return cluster_.all_acked(); }
  std::vector<NodeId> ResponsivePeers(Recency recency) override {
    return failure_detector_.ResponsivePeers(recency);
  }
  bool begun() const override { return cluster_.begun(); }
  bool is_leader() const override { return cluster_.is_leader(); }
  bool has_dependents() const override { return cluster_.has_dependents(); }
  bool alone() const override { return cluster_.alone(); }
  uint32_t members() const override { return cluster_.members(); }
  bool idle() const override { return cluster_.idle(); }
  uint64_t merges() const override { return cluster_.merges(); }
  void Flush() override { cluster_.Flush(); }
  void Leave() override { cluster_.Leave(); }
  bool left() const override { return cluster_.left(); }
  bool delivered() const override { return cluster_.delivered(); }
  bool settled() const override { return cluster_.settled(); }
  uint64_t non_finite() const override { return cluster_.non_finite(); }

 private:
  Cluster& cluster_;
  FailureDetector& failure_detector_;
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_CLUSTER_PEERS_H_
