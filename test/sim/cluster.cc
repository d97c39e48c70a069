#include "test/sim/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "test/sim/sim_node.h"

namespace millrace::sim {

using test::ExchangeNode;

Cluster::Cluster(const ClusterOptions& options)
    : network_(options.seed, options.nodes, options.faults, SIZE_MAX),
      nodes_(options.nodes),
      room_(options.faults.rate) {
  Scenario scenario;
  scenario.seed = options.seed;
  scenario.nodes = options.nodes;
  scenario.codec = options.codec.codec;
  scenario.threshold = options.codec.threshold;
  for (uint16_t id = 0; id < options.nodes; ++id) {
    ExchangeConfig config = ConfigOf(scenario, id, 1);
    config.damping = options.damping;
    nodes_[id].Start(config, options.size, options.chunk_floats);
  }
  Settle();
}

void Cluster::Tick(const SolverStep& step, uint64_t iterations) {
  const int64_t now = tick_ * kTickNs;
  for (uint16_t id = 0; id < nodes_.size(); ++id) {
    ExchangeNode& node = nodes_[id];
    const std::vector<FrameBytes> arrived = network_.Arrived(id, tick_);
    std::vector<std::span<const std::byte>> frames;
    for (const FrameBytes& frame : arrived) frames.push_back(frame.view());
    node.exchange->Receive(frames, now);
    if (step) {
      step(id, node.weights);
      node.iterations += iterations;
      node.exchange->SetProgress(node.iterations);
    }
    const size_t count = node.exchange->Send(room_, now);
    for (size_t i = 0; i < count; ++i) {
      network_.Transmit(id, room_[i].destination, room_[i].head, room_[i].payload, tick_);
      node.exchange->Release(room_[i].slot);
    }
  }
  ++tick_;
}

void Cluster::Settle() {
  int rest = 0;
  for (int i = 0; i < 4000 && rest < 20; ++i) {
    Tick();
    const bool all = std::all_of(nodes_.begin(), nodes_.end(), [&](const ExchangeNode& node) {
      return node.exchange->quiescent() && node.exchange->view().synced() == nodes_.size() &&
             node.exchange->view().id == nodes_[0].exchange->view().id;
    });
    rest = all ? rest + 1 : 0;
  }
  ASSERT_EQ(rest, 20) << "not at rest";
}

void Cluster::Flush() {
  for (ExchangeNode& node : nodes_) node.exchange->Flush();
  Settle();
}

uint64_t Cluster::frames() const {
  uint64_t count = 0;
  for (const ExchangeNode& node : nodes_) {
    const auto& sent = node.exchange->stats().sent;
    for (size_t type = 0; type < static_cast<size_t>(FrameType::kHeartbeat); ++type) {
      count += sent[type];
    }
  }
  return count;
}

}  // namespace millrace::sim
