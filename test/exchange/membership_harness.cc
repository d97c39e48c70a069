#include "test/exchange/membership_harness.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace millrace::test {

std::vector<std::byte> Framed(FrameHeader header, std::span<const std::byte> payload,
                              std::span<const std::byte> report) {
  static constexpr std::byte kHearsAll[8] = {};
  if (header.type == FrameType::kHeartbeat && report.empty()) report = kHearsAll;
  header.ack_bytes = static_cast<uint16_t>(report.size());
  header.length = static_cast<uint32_t>(payload.size());
  std::vector<std::byte> bytes(kFrameHeaderBytes + report.size());
  EncodeFrame(header, report, payload, bytes);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

void MembershipHarness::Start(uint16_t node, uint32_t incarnation) {
  MembershipConfig config;
  config.node = node;
  config.max_nodes = static_cast<uint16_t>(nodes_.size());
  config.incarnation = incarnation;
  config.heartbeat_ns = 8'000'000;
  config.peer_timeout_ns = 60'000'000;
  config.bootstrap_after_ns = 40'000'000;
  config.max_members = max_members;
  nodes_[node] = {};
  nodes_[node].membership = std::make_unique<Membership>(config);
}

void MembershipHarness::StartAll() {
  for (uint16_t node = 0; node < nodes_.size(); ++node) Start(node);
}

void MembershipHarness::Work(uint16_t node, uint64_t iterations) {
  nodes_[node].clock += iterations;
  of(node).SetClock(nodes_[node].clock - nodes_[node].clock_at_reset);
}

void MembershipHarness::Receive(Node& node, const std::vector<std::byte>& bytes) {
  FrameView frame;
  ASSERT_EQ(DecodeFrame(bytes, &frame), DropReason::kNone);
  node.membership->OnFrame(frame.header, true, now());
  EXPECT_TRUE(node.membership->Receive(frame, now()));
}

void MembershipHarness::Give(uint16_t to, const std::vector<std::byte>& frame) {
  Receive(nodes_[to], frame);
}

void MembershipHarness::SendMessages(uint16_t from) {
  Node& node = nodes_[from];
  Membership& m = *node.membership;
  std::vector<std::byte> payload(Membership::MaxPayloadBytes(static_cast<uint16_t>(nodes_.size())));
  MembershipMessage message;
  while (m.Poll(now(), &message, payload.data())) {
    FrameHeader header;
    header.type = message.type;
    header.source = from;
    header.destination = message.destination;
    header.incarnation = m.incarnation();
    header.view = m.view().id;
    header.clock = m.clock();
    const auto bytes =
        Framed(header, std::span(payload).first(message.payload_bytes), message.report);
    last[{from, message.type}] = bytes;
    for (uint16_t to = 0; to < nodes_.size(); ++to) {
      if (to == from || !nodes_[to].membership) continue;
      if (message.destination != kAllNodes && message.destination != to) continue;
      if (!delivers || delivers(from, to, message.type)) nodes_[to].arrivals.push_back(bytes);
    }
  }
}

void MembershipHarness::Tick() {
  std::vector<std::vector<std::vector<std::byte>>> arrived(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].frozen) arrived[i].swap(nodes_[i].arrivals);
  }
  for (uint16_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (!node.membership || node.frozen || node.membership->left()) continue;
    node.membership->Tick(now());
    Check(i);
    for (const auto& bytes : arrived[i]) {
      Receive(node, bytes);
      Check(i);
    }
    if (node.membership->role() == Role::kJoining && node.membership->view().id &&
        node.gets_synced) {
      node.membership->SetSynced();
    }
    if (node.membership->role() == Role::kLeaving && node.gets_drained) {
      node.membership->SetDrained();
    }
    SendMessages(i);
  }
  ++tick_;
}

void MembershipHarness::Run(int ticks) {
  for (int i = 0; i < ticks; ++i) Tick();
}

// Checks that a view is equal on all its members, that its coordinator installed it first, and
// that it contains the node with its current incarnation.
void MembershipHarness::Check(uint16_t id) {
  Node& node = nodes_[id];
  bool reset;
  if (!node.membership->TakeChange(&reset)) return;
  const View& view = node.membership->view();
  const Member* coordinator = view.Find(view.id.coordinator);
  ASSERT_TRUE(coordinator);
  const std::pair name{view.id, coordinator->incarnation};
  if (view.id.coordinator == id && !committed_.count(name)) committed_[name] = view.members;
  ASSERT_TRUE(committed_.count(name)) << "node " << id << ", epoch " << view.id.epoch;
  EXPECT_EQ(committed_[name], view.members);
  EXPECT_TRUE(view.Has(id, node.membership->incarnation()));
  if (!reset) return;
  ++node.resets;
  node.clock_at_reset = node.clock;
}

bool MembershipHarness::Agree() {
  const View* view = nullptr;
  size_t running = 0;
  for (const Node& node : nodes_) running += node.membership && !node.membership->left();
  for (const Node& node : nodes_) {
    if (!node.membership || node.membership->left()) continue;
    const View& own = node.membership->view();
    if (view && view->id != own.id) return false;
    if (own.members.size() != running || own.synced() != running) return false;
    view = &own;
  }
  return view != nullptr;
}

std::string MembershipHarness::Describe() const {
  std::string text;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].membership) continue;
    const View& view = nodes_[i].membership->view();
    text += StrCat("\n  node ", i, " (", nodes_[i].membership->incarnation(), ") in ",
                   view.id.epoch, "/", view.id.coordinator, " after");
    for (const ViewId& id : view.ancestors) text += StrCat(" ", id.epoch, "/", id.coordinator);
    text += " of";
    for (const Member& m : view.members) {
      text += StrCat(" ", m.node, "(", m.incarnation, " ", static_cast<int>(m.role), ")");
    }
  }
  return text;
}

}  // namespace millrace::test
