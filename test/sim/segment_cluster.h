// Nodes of one segment that make passes in turn on one thread; the test supplies the time. The test
// chooses the memory of each node's replica.
#ifndef MILLRACE_TEST_SIM_SEGMENT_CLUSTER_H_
#define MILLRACE_TEST_SIM_SEGMENT_CLUSTER_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "segment/net_segment.h"
#include "test/sim/handshake_cluster.h"
#include "transport/loopback/transport.h"

namespace millrace::sim {

class SegmentCluster {
 public:
  // Uses a loopback hub and replicas in host memory unless `connect` and `replica_device` are set.
  SegmentCluster(int nodes, int64_t floats, const NetSegmentConfig& config = {},
                 const LoopbackOptions& options = {})
      : floats_(floats), hub_(WithNodes(options, nodes)), config_(config) {
    config_.exchange.max_nodes = static_cast<uint16_t>(nodes);
    config_.exchange.run = 7;
    for (int i = 0; i < nodes; ++i) config_.filter.handshake.names.push_back(StrCat("node", i));
    weights_.resize(nodes);
    nets_.resize(nodes);
    made_.resize(nodes);
    homes_.assign(nodes, HostReplica());
    connect = [this](int node) { return hub_.Connect(node); };
    replica_device = [](int) { return HostReplica(); };
  }

  std::function<std::unique_ptr<Transport>(int node)> connect;
  std::function<ReplicaDevice(int node)> replica_device;
  // If set: the gossip store of the node's segment.
  std::function<std::shared_ptr<GossipStore>(int node)> gossip;

  // Without `incarnation`, the node takes one that is larger at each later start.
  void Start(int node, float value = 0, std::optional<uint32_t> incarnation = {}) {
    StartWith(config_, node, value, incarnation);
  }
  // Starts the node with a configuration altered by `change`.
  void StartOther(int node, const std::function<void(NetSegmentConfig*)>& change) {
    NetSegmentConfig config = config_;
    change(&config);
    StartWith(config, node, 0, {});
  }
  void Kill(int node) { nets_[node].reset(); }

  void Add(int node, int64_t i, float step) {
    MemorySpace& memory = homes_[node].device->memory();
    float value;
    memory.CopyToHost(&value, at(node) + i, sizeof(value));
    value += step;
    memory.CopyFromHost(at(node) + i, &value, sizeof(value));
  }
  // Makes one iteration: adds to one weight, to the next one each time.
  void Iterate(int node, float step) {
    Add(node, static_cast<int64_t>(made_[node]) % floats_, step);
    nets_[node]->state().SetProgress(++made_[node]);
  }

  void Pass() {
    for (auto& net : nets_) {
      if (net) last_ = net->Pass(now_);
    }
    now_ += kMs / 4;
  }
  // Makes `iterations` iterations, one node after the other, with a pass after each.
  void TakeTurns(int iterations) {
    for (int i = 0; i < iterations; ++i) {
      Iterate(i % static_cast<int>(nets_.size()), 1);
      Pass();
    }
  }
  void Run(int64_t ms) {
    for (const int64_t end = now_ + ms * kMs; now_ < end;) Pass();
  }
  void StartAll() {
    for (size_t i = 0; i < nets_.size(); ++i) Start(static_cast<int>(i));
    for (int i = 0; i < 40000 && !Together(); ++i) Pass();
    ASSERT_TRUE(Together());
  }
  bool Together() {
    for (auto& net : nets_) {
      if (net && (!net->state().in_sync() || net->state().members() != Living())) return false;
    }
    return true;
  }
  uint32_t Living() const {
    uint32_t living = 0;
    for (const auto& net : nets_) living += net != nullptr;
    return living;
  }

  NetSegment& net(int node) { return *nets_[node]; }
  std::vector<float> weights(int node) {
    std::vector<float> values(floats_);
    homes_[node].device->memory().CopyToHost(values.data(), at(node), weights_[node].bytes());
    return values;
  }
  int64_t now() const { return now_; }
  NetSegment::Next last() const { return last_; }
  uint64_t made(int node) const { return made_[node]; }

 private:
  void StartWith(NetSegmentConfig config, int node, float value,
                 std::optional<uint32_t> incarnation) {
    config.exchange.node = static_cast<uint16_t>(node);
    config.filter.random = SeededRandom(node, ++sessions_);
    config.exchange.incarnation = incarnation.value_or(1 + static_cast<uint32_t>(now_ / kMs));
    if (gossip) config.gossip = gossip(node);
    homes_[node] = replica_device(node);
    weights_[node] = Buffer(homes_[node].device->memory(), 4 * static_cast<size_t>(floats_));
    const std::vector<float> values(floats_, value);
    homes_[node].device->memory().CopyFromHost(at(node), values.data(), weights_[node].bytes());
    nets_[node] =
        std::make_unique<NetSegment>(config, connect(node), at(node), floats_, homes_[node]);
  }

  static LoopbackHub WithNodes(LoopbackOptions options, int nodes) {
    options.nodes = nodes;
    return LoopbackHub(options);
  }
  float* at(int node) const { return weights_[node].get<float>(); }

  const int64_t floats_;
  LoopbackHub hub_;
  NetSegmentConfig config_;
  int64_t now_ = 1;
  uint64_t sessions_ = 0;
  NetSegment::Next last_;
  std::vector<ReplicaDevice> homes_;
  std::vector<Buffer> weights_;
  std::vector<uint64_t> made_;
  std::vector<std::unique_ptr<NetSegment>> nets_;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_SEGMENT_CLUSTER_H_
