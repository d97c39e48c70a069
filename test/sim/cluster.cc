#include "test/sim/cluster.h"

#include <algorithm>

#include "base/error.h"

namespace millrace::sim {

ExchangeConfig ConfigOf(const ClusterOptions& options, uint16_t node) {
  ExchangeConfig config = TickConfig();
  config.run = 77;
  config.node = node;
  config.max_nodes = options.nodes;
  config.codec = options.codec;
  config.position_codec = options.position_codec;
  config.position_share = options.position_share;
  config.slots = options.slots;
  config.direct = options.direct;
  config.damping = options.damping;
  config.passes_all_on = options.passes_all_on;
  config.peer_timeout_ns = options.peer_timeout_ticks * kTickNs;
  config.bytes_per_second = options.bytes_per_second;
  if (!options.examples.empty()) config.examples = options.examples.at(node);
  return config;
}

Cluster::Cluster(const ClusterOptions& options)
    : options_(options),
      network_(options.seed, options.nodes, options.faults),
      nodes_(options.nodes),
      room_(options.faults.rate) {
  for (uint16_t i = 0; i < options.nodes; ++i) {
    nodes_[i].Start(ConfigOf(options, i), options.size, options.chunk_floats, {}, options.rule);
  }
  if (options.joined) Settle();
}

uint32_t Cluster::ChunkOf(uint16_t node) {
  for (uint32_t chunk = 0; chunk < chunks(); ++chunk) {
    if (owner(chunk) == node) return chunk;
  }
  throw Error("node ", node, " masters nothing");
}

void Cluster::Add(size_t i, int64_t weight, float value) {
  Node& node = nodes_[i];
  node.weights[weight] += value;
  node.exchange->SetProgress(++node.iterations);
  node.woken = true;
}

void Cluster::Step(size_t node) {
  for (float& weight : nodes_[node].weights) weight += 1;
  Add(node, 0, 0);
}

void Cluster::Pass(uint16_t id, const SolverStep& step, uint64_t iterations) {
  Node& node = nodes_[id];
  const std::vector<Network::Arrival> arrived = network_.Arrived(id, tick_);
  const bool due = node.woken || !arrived.empty() || node.exchange->NextEvent(now()) <= now();
  if (node.stopped || (sleeps && !due)) return;
  node.woken = false;
  const std::vector<std::span<const std::byte>> frames = ViewsOf(arrived);
  entering();
  node.exchange->Receive(frames, now());
  leaving();
  if (step) {
    step(id, node.weights);
    node.exchange->SetProgress(node.iterations += iterations, node.unmerged);
  }
  entering();
  const size_t count = node.exchange->Send(room_, now());
  leaving();
  node.held.insert(node.held.end(), room_.begin(), room_.begin() + static_cast<ptrdiff_t>(count));
  if (node.stuck) return;
  for (const PostedFrame& frame : node.held) {
    network_.Transmit(id, frame.destination, frame.head, frame.payload, tick_);
    node.exchange->Release(frame.slot);
  }
  node.held.clear();
}

void Cluster::Tick(const SolverStep& step, uint64_t iterations) {
  for (uint16_t id = 0; id < nodes_.size(); ++id) Pass(id, step, iterations);
  ++tick_;
}

void Cluster::Run(int64_t ticks) {
  for (int64_t i = 0; i < ticks; ++i) Tick();
}

bool Cluster::Settled() const {
  size_t running = 0;
  const View* view = nullptr;
  for (const Node& node : nodes_) {
    if (node.stopped) continue;
    ++running;
    if (!node.exchange->quiescent()) return false;
    if (view && view->id != node.exchange->view().id) return false;
    view = &node.exchange->view();
  }
  return view && view->members.size() == running && view->synced() == running;
}

void Cluster::Settle() {
  constexpr int kStill = 10;
  int still = 0;
  for (int i = 0; still < kStill; ++i) {
    if (i == 4000) throw Error("cluster: not at rest at tick ", tick_);
    Tick();
    still = Settled() ? still + 1 : 0;
  }
}

void Cluster::Flush() {
  for (Node& node : nodes_) node.exchange->Flush();
  Settle();
}

uint64_t Cluster::frames() const {
  uint64_t count = 0;
  for (const Node& node : nodes_) count += ExchangeFrames(*node.exchange);
  return count;
}

FrameHeader Cluster::HeaderOf(uint16_t from, uint16_t to, FrameType type) const {
  FrameHeader header;
  header.type = type;
  header.run = ConfigOf(options_, from).run;
  header.source = from;
  header.destination = to;
  header.incarnation = nodes_[from].exchange->incarnation();
  header.view = nodes_[from].exchange->view().id;
  return header;
}

FrameBytes Cluster::Forge(uint16_t from, FrameHeader header, std::span<const std::byte> acks,
                          std::span<const std::byte> payload) {
  header.source = from;
  header.ack_bytes = static_cast<uint16_t>(acks.size());
  header.length = static_cast<uint32_t>(payload.size());
  std::vector<std::byte> head(kFrameHeaderBytes + acks.size());
  EncodeFrame(header, acks, payload, head);
  return FrameBytes(head, payload);
}

FrameBytes Cluster::ForgeDiff(uint16_t from, uint16_t to, uint32_t chunk, uint32_t seq,
                              const std::vector<float>& values) const {
  FrameHeader header = HeaderOf(from, to, FrameType::kDiff);
  header.chunk = chunk;
  header.seq = seq;
  header.number = nodes_[from].exchange->table().chunks[chunk].number;
  return Forge(from, header, {}, std::as_bytes(std::span(values)));
}

void Cluster::Give(size_t node, const FrameBytes& frame) {
  const std::span<const std::byte> bytes = frame.view();
  nodes_[node].exchange->Receive({&bytes, 1}, now());
}

}  // namespace millrace::sim
