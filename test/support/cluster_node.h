// One cluster node with its threads: weights, and the segments that exchange them.
#ifndef MILLRACE_TEST_SUPPORT_CLUSTER_NODE_H_
#define MILLRACE_TEST_SUPPORT_CLUSTER_NODE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/threads/range_lock.h"
#include "cluster/cluster.h"

namespace millrace::test {

struct SegmentEnd {
  NetSegmentConfig config;
  std::unique_ptr<Transport> transport;
  int64_t begin = 0, floats = -1;  // range of the weights; -1: to the end
  bool above = false;
};

// An incarnation larger than all earlier ones.
inline uint32_t NewIncarnation() {
  static uint32_t newest = 0;
  return ++newest;
}

// Configuration of node `node` of a segment with nodes n0, n1, ... (`nodes` of them).
inline NetSegmentConfig EndConfig(NodeId node, uint16_t nodes, uint32_t incarnation) {
  NetSegmentConfig config;
  config.exchange.node = node;
  config.exchange.max_nodes = nodes;
  config.exchange.incarnation = incarnation;
  config.exchange.heartbeat_ns = 20'000'000;
  for (int i = 0; i < nodes; ++i) config.filter.handshake.names.push_back(StrCat("n", i));
  return config;
}

// Runs from its construction to its destruction. Its segments are named s0, s1, ...
class ClusterNode {
 public:
  // `start` and `gossip` are passed to Cluster.
  ClusterNode(std::vector<SegmentEnd> ends, std::vector<float> weights, int64_t start = 0,
              std::shared_ptr<GossipStore> gossip = nullptr)
      : weights_(std::move(weights)) {
    const ReplicaDevice replica_device = HostReplica(&locks_);
    std::vector<ClusterSegment> segments;
    for (SegmentEnd& end : ends) {
      end.config.name = StrCat("s", segments.size());
      const auto rest = static_cast<int64_t>(weights_.size()) - end.begin;
      segments.push_back({.net = std::make_unique<NetSegment>(
                              end.config, std::move(end.transport), weights_.data() + end.begin,
                              end.floats < 0 ? rest : end.floats, replica_device),
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
  // Accesses the weights while neither a segment nor another thread of the test does.
  template <typename Body>
  auto WithWeights(Body body) {
    std::lock_guard guard(mutex_);
    solver_.Lock(weights_.data(), static_cast<int64_t>(weights_.size()));
    const Unlocker unlocker{&solver_};
    return body(weights_);
  }
  // Consistent copy of the weights.
  std::vector<float> weights() {
    return WithWeights([](const std::vector<float>& weights) { return weights; });
  }

 private:
  struct Unlocker {
    ~Unlocker() { solver->Unlock(); }
    RangeLock::Shared* solver;
  };
  std::vector<float> weights_;
  RangeLock locks_{weights_.data()};
  std::mutex mutex_;  // guards solver_
  RangeLock::Shared solver_{&locks_};
  IterationClock clock_;
  SteadyClock time_;
  ErrorSink sink_;
  std::unique_ptr<Cluster> cluster_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_CLUSTER_NODE_H_
