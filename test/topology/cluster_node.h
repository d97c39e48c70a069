// One node of a cluster, with its threads: weights, and segments at work on them.
#ifndef MILLRACE_TEST_TOPOLOGY_CLUSTER_NODE_H_
#define MILLRACE_TEST_TOPOLOGY_CLUSTER_NODE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cluster/cluster.h"
#include "test/support/locked_executor.h"

namespace millrace::test {

struct SegmentEnd {
  NetSegmentConfig config;
  std::unique_ptr<Transport> transport;
  int64_t begin = 0, floats = -1;  // its range; -1: to the end
  bool above = false;
};

// An incarnation that is larger than all before.
inline uint32_t NewLife() {
  static uint32_t lives = 0;
  return ++lives;
}

// Of the end that node `node` of n0, n1, ... has of a segment of `nodes` of them.
inline NetSegmentConfig EndConfig(NodeId node, uint16_t nodes, uint32_t incarnation) {
  NetSegmentConfig config;
  config.exchange.node = node;
  config.exchange.max_nodes = nodes;
  config.exchange.incarnation = incarnation;
  config.exchange.heartbeat_ns = 20'000'000;
  for (int i = 0; i < nodes; ++i) config.filter.handshake.names.push_back(StrCat("n", i));
  return config;
}

// Runs from its construction to its end. Its segments are s0, s1, ...
class ClusterNode {
 public:
  // `start` and `gossip messages` as Cluster takes them.
  ClusterNode(std::vector<SegmentEnd> ends, std::vector<float> weights, int64_t start = 0,
              std::shared_ptr<GossipStore> gossip = nullptr)
      : weights_(std::move(weights)) {
    const ReplicaDevice home = LockedHostHome(&mutex_);
    std::vector<ClusterSegment> segments;
    for (SegmentEnd& end : ends) {
      end.config.name = StrCat("s", segments.size());
      const auto rest = static_cast<int64_t>(weights_.size()) - end.begin;
      segments.push_back({.net = std::make_unique<NetSegment>(
                              end.config, std::move(end.transport), weights_.data() + end.begin,
                              end.floats < 0 ? rest : end.floats, home),
                          .thread = {},
                          .counts = end.begin == 0,
                          .above = end.above,
                          .begin = end.begin});
    }
    cluster_ =
        std::make_unique<Cluster>(std::move(segments), start, &clock_, &time_, &sink_, gossip);
  }

  Cluster& cluster() { return *cluster_; }
  IterationClock& clock() { return clock_; }
  // Does something to the weights that no segment sees half done.
  template <typename Body>
  void WithWeights(Body body) {
    std::lock_guard lock(mutex_);
    body(weights_);
  }
  // As they are at one moment.
  std::vector<float> weights() const {
    std::lock_guard lock(mutex_);
    return weights_;
  }

 private:
  mutable std::mutex mutex_;  // guards weights_
  std::vector<float> weights_;
  IterationClock clock_;
  SteadyClock time_;
  ErrorSink sink_;
  std::unique_ptr<Cluster> cluster_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TOPOLOGY_CLUSTER_NODE_H_
