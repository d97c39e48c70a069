#include "test/exchange/exchange_harness.h"

#include <gtest/gtest.h>

namespace millrace::test {

ExchangeConfig HarnessConfig(const ExchangeHarnessOptions& options, uint16_t node) {
  ExchangeConfig config = TickConfig();
  config.run = 77;
  config.node = node;
  config.max_nodes = options.nodes;
  config.codec = options.codec;
  config.slots = options.slots;
  config.direct = options.direct;
  config.damping = options.damping;
  config.passes_all_on = options.passes_all_on;
  return config;
}

ExchangeHarness::ExchangeHarness(const ExchangeHarnessOptions& options)
    : options_(options), nodes_(options.nodes), room_(options.room) {
  for (uint16_t i = 0; i < options.nodes; ++i) {
    nodes_[i].Start(HarnessConfig(options, i), options.size, options.chunk_floats);
  }
}

void ExchangeHarness::Add(size_t node, int64_t weight, float value) {
  nodes_[node].weights[weight] += value;
  nodes_[node].exchange->SetProgress(++nodes_[node].iterations);
  nodes_[node].woken = true;
}

void ExchangeHarness::Step(size_t node) {
  for (float& weight : nodes_[node].weights) weight += 1;
  Add(node, 0, 0);
}

uint64_t ExchangeHarness::positions_sent(size_t node) {
  return exchange(node).stats().sent[static_cast<size_t>(FrameType::kPosition)];
}

void ExchangeHarness::Collect(size_t from) {
  entering();
  const size_t count = nodes_[from].exchange->Send(room_, now());
  leaving();
  Node& node = nodes_[from];
  node.held.insert(node.held.end(), room_.begin(), room_.begin() + static_cast<ptrdiff_t>(count));
  if (node.stuck) return;
  for (const PostedFrame& out : node.held) {
    const FrameBytes frame(out.head, out.payload);
    for (uint16_t to = 0; to < nodes_.size(); ++to) {
      if (to == from || (out.destination != kAllNodes && out.destination != to)) continue;
      if (!delivers || delivers(to, frame)) nodes_[to].arrivals.push_back(frame);
    }
    node.exchange->Release(out.slot);
  }
  node.held.clear();
}

void ExchangeHarness::Tick() {
  std::vector<std::vector<FrameBytes>> arrived(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) arrived[i].swap(nodes_[i].arrivals);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    const bool due = node.woken || !arrived[i].empty() || node.exchange->NextEvent(now()) <= now();
    if (node.stopped || (sleeps && !due)) continue;
    node.woken = false;
    std::vector<std::span<const std::byte>> frames;
    for (const FrameBytes& frame : arrived[i]) frames.push_back(frame.view());
    entering();
    node.exchange->Receive(frames, now());
    leaving();
    Collect(i);
  }
  ++tick_;
}

void ExchangeHarness::Run(int ticks) {
  for (int i = 0; i < ticks; ++i) Tick();
}

bool ExchangeHarness::Settled() const {
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

void ExchangeHarness::Settle() {
  int rest = 0;
  for (int i = 0; i < 3000 && rest < 10; ++i) {
    Tick();
    rest = Settled() ? rest + 1 : 0;
  }
  ASSERT_EQ(rest, 10) << "not at rest";
}

std::unique_ptr<ExchangeHarness> ExchangeHarness::Ready(const ExchangeHarnessOptions& options) {
  auto joined = std::make_unique<ExchangeHarness>(options);
  joined->Settle();
  return joined;
}

FrameHeader ExchangeHarness::HeaderOf(uint16_t from, uint16_t to, FrameType type) const {
  FrameHeader header;
  header.type = type;
  header.run = HarnessConfig(options_, from).run;
  header.source = from;
  header.destination = to;
  header.incarnation = nodes_[from].exchange->incarnation();
  header.view = nodes_[from].exchange->view().id;
  return header;
}

FrameBytes ExchangeHarness::Forge(uint16_t from, FrameHeader header,
                                  std::span<const std::byte> acks,
                                  std::span<const std::byte> payload) const {
  header.source = from;
  header.ack_bytes = static_cast<uint16_t>(acks.size());
  header.length = static_cast<uint32_t>(payload.size());
  std::vector<std::byte> head(kFrameHeaderBytes + acks.size());
  EncodeFrame(header, acks, payload, head);
  return {head, payload};
}

FrameBytes ExchangeHarness::ForgeDiff(uint16_t from, uint16_t to, uint32_t chunk, uint32_t seq,
                                      const std::vector<float>& values) const {
  FrameHeader header = HeaderOf(from, to, FrameType::kDiff);
  header.chunk = chunk;
  header.seq = seq;
  header.number = nodes_[from].exchange->table().chunks[chunk].number;
  return Forge(from, header, {}, std::as_bytes(std::span(values)));
}

void ExchangeHarness::Give(size_t node, const FrameBytes& frame) {
  const std::span<const std::byte> bytes = frame.view();
  nodes_[node].exchange->Receive({&bytes, 1}, now());
}

uint32_t ExchangeHarness::ChunkOf(uint16_t node) {
  for (uint32_t chunk = 0; chunk < exchange(0).table().size(); ++chunk) {
    if (owner(chunk) == node) return chunk;
  }
  ADD_FAILURE() << "node " << node << " masters nothing";
  return 0;
}

}  // namespace millrace::test
