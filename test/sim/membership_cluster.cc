#include "test/sim/membership_cluster.h"

#include "base/error.h"
#include "test/sim/exchange_node.h"

namespace millrace::sim {

FrameBytes EncodeMembership(FrameHeader header, std::span<const std::byte> payload,
                            std::span<const std::byte> report) {
  static constexpr std::byte kReceivesAll[8] = {};
  if (header.type == FrameType::kHeartbeat && report.empty()) report = kReceivesAll;
  header.ack_bytes = static_cast<uint16_t>(report.size());
  header.length = static_cast<uint32_t>(payload.size());
  std::vector<std::byte> head(kFrameHeaderBytes + report.size());
  EncodeFrame(header, report, payload, head);
  return FrameBytes(head, payload);
}

MembershipCluster::MembershipCluster(uint16_t count, uint64_t seed)
    : network_(seed, count), nodes_(count) {
  network_.delivers = [this](uint16_t from, uint16_t to, const FrameBytes& frame) {
    return !delivers || delivers(from, to, frame.decoded().header.type);
  };
}

std::unique_ptr<MembershipCluster> MembershipCluster::Agreed(uint16_t count) {
  auto cluster = std::make_unique<MembershipCluster>(count);
  cluster->StartAll();
  cluster->Run(200);
  if (!cluster->Agree()) throw Error("membership: no agreement", cluster->Describe());
  return cluster;
}

void MembershipCluster::Start(uint16_t node, uint32_t incarnation) {
  MembershipConfig config;
  config.node = node;
  config.max_nodes = static_cast<uint16_t>(nodes_.size());
  config.incarnation = incarnation;
  config.heartbeat_ns = 8'000'000;
  config.peer_timeout_ns = 60'000'000;
  config.bootstrap_after_ns = 40'000'000;
  config.max_members = max_members;
  network_.Clear(node);
  nodes_[node] = {};
  nodes_[node].membership = std::make_unique<Membership>(config);
}

void MembershipCluster::StartAll() {
  for (uint16_t node = 0; node < nodes_.size(); ++node) Start(node);
}

void MembershipCluster::Work(uint16_t node, uint64_t iterations) {
  nodes_[node].clock += iterations;
  of(node).SetClock(nodes_[node].clock - nodes_[node].clock_at_reset);
}

void MembershipCluster::Give(uint16_t to, const FrameBytes& bytes) {
  const FrameView frame = bytes.decoded();
  of(to).OnFrame(frame.header, true, now());
  if (!of(to).Receive(frame, now())) throw Error("membership: node ", to, " refused a frame");
}

void MembershipCluster::Send(uint16_t from) {
  Membership& m = of(from);
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
    const FrameBytes frame =
        EncodeMembership(header, std::span(payload).first(message.payload_bytes), message.report);
    last[{from, message.type}] = frame;
    network_.Transmit(from, message.destination, frame.view(), {}, tick_);
  }
}

void MembershipCluster::Tick() {
  for (uint16_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (!node.membership || node.frozen || node.membership->left()) continue;
    node.membership->Tick(now());
    Check(i);
    for (const Network::Arrival& arrival : network_.Arrived(i, tick_)) {
      Give(i, arrival.frame);
      Check(i);
    }
    if (node.membership->role() == Role::kJoining && node.membership->view().id &&
        node.gets_synced) {
      node.membership->SetSynced();
    }
    if (node.membership->role() == Role::kLeaving && node.gets_drained) {
      node.membership->SetDrained();
    }
    Send(i);
  }
  ++tick_;
}

void MembershipCluster::Run(int ticks) {
  for (int i = 0; i < ticks; ++i) Tick();
}

void MembershipCluster::Check(uint16_t id) {
  Node& node = nodes_[id];
  bool reset;
  if (!node.membership->TakeChange(&reset)) return;
  const View& view = node.membership->view();
  if (!view.id) {  // the node has given up its view
    ++node.resets;
    node.clock_at_reset = node.clock;
    return;
  }
  const Member* coordinator = view.Find(view.id.coordinator);
  const std::pair name{view.id, coordinator ? coordinator->incarnation : 0};
  if (view.id.coordinator == id) committed_.try_emplace(name, view.members);
  const auto committed = committed_.find(name);
  if (!coordinator || committed == committed_.end() || committed->second != view.members ||
      !view.Has(id, node.membership->incarnation())) {
    throw Error("membership: node ", id, " is in a view that was not agreed on", Describe());
  }
  if (!reset) return;
  ++node.resets;
  node.clock_at_reset = node.clock;
}

bool MembershipCluster::Agree() {
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

std::string MembershipCluster::Describe() const {
  std::string text;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].membership) continue;
    text += StrCat("\n  node ", i, " (", nodes_[i].membership->incarnation(), ") in ",
                   ViewText(nodes_[i].membership->view()));
  }
  return text;
}

}  // namespace millrace::sim
