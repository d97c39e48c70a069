#include "test/segment/handshake_harness.h"

#include <algorithm>
#include <utility>

#include "test/support/support.h"

namespace millrace::test {

RandomBytes SeededRandom(uint64_t node, uint64_t session_id) {
  auto rng = std::make_shared<Rng>(Seed(), std::initializer_list<uint64_t>{77, node, session_id});
  return [rng](std::span<std::byte> out) {
    for (std::byte& b : out) b = static_cast<std::byte>(rng->Next());
  };
}

SecretKey KeyOf(uint8_t letter) {
  SecretKey key;
  std::fill(key.bytes().begin(), key.bytes().end(), std::byte{letter});
  return key;
}

HandshakeConfig ConfigOf(NodeId node, size_t nodes, uint32_t incarnation) {
  HandshakeConfig config;
  config.run = kRun;
  config.node = node;
  config.incarnation = incarnation;
  for (size_t i = 0; i < nodes; ++i) config.names.push_back(std::string(1, char('a' + i)));
  config.settings = {.max_nodes = static_cast<uint16_t>(nodes),
                     .chunk_floats = 348,
                     .parameters = 430'500,
                     .layout_digest = 0xd1,
                     .topology_digest = 0xd2};
  return config;
}

HandshakeHarness::HandshakeHarness(size_t nodes, Faults faults, uint64_t seed_name)
    : nodes_(nodes), links_(faults, Rng(Seed(), {78, seed_name})) {}

void HandshakeHarness::Start(const HandshakeConfig& config, const SecretKey* key) {
  const uint64_t session_id = uint64_t{config.incarnation} << 32 | sent_.size();
  nodes_[config.node] =
      std::make_unique<Handshake>(config, key, SeededRandom(config.node, session_id));
}

void HandshakeHarness::StartAll(const SecretKey* key, bool multicast) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    HandshakeConfig config = ConfigOf(static_cast<NodeId>(i), nodes_.size());
    config.multicast = multicast;
    Start(config, key);
  }
}

void HandshakeHarness::Carry(const Carried& frame) {
  for (size_t to = 0; to < nodes_.size(); ++to) {
    if (to == frame.from || (frame.to != kAllNodes && frame.to != to)) continue;
    links_.Carry({static_cast<NodeId>(to), frame}, now_);
  }
}

void HandshakeHarness::Step() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == nullptr || nodes_[i]->NextEvent() > now_) continue;
    OutHandshake room[3];
    for (const OutHandshake& out : std::span(room).first(nodes_[i]->Send(room, now_))) {
      Carried frame{static_cast<NodeId>(i), out.to, out.bytes};
      if (tamper_ && !tamper_(&frame)) continue;
      sent_.push_back(frame);
      Carry(frame);
    }
  }
  for (const Delivery& each : links_.Arrived(now_)) {
    if (nodes_[each.to] == nullptr) continue;
    nodes_[each.to]->Receive(each.frame.from, each.frame.bytes, now_);
  }
}

bool HandshakeHarness::RunUntil(const std::function<bool()>& done, int64_t ms) {
  const int64_t end = now_ + ms * kMs;
  for (; now_ < end; now_ += kMs) {
    if (done()) return true;
    Step();
  }
  return done();
}

void HandshakeHarness::Run(int64_t ms) {
  RunUntil([] { return false; }, ms);
}

bool HandshakeHarness::AllMet() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (size_t j = 0; j < nodes_.size(); ++j) {
      if (i == j || nodes_[i] == nullptr || nodes_[j] == nullptr) continue;
      const auto peer = nodes_[i]->Peer(static_cast<NodeId>(j));
      if (!peer.has_value() || peer->session_id != nodes_[j]->session_id()) return false;
      if (!nodes_[i]->IsConfirmed(static_cast<NodeId>(j))) return false;
    }
  }
  return true;
}

uint64_t CountOf(const Handshake& node, DropReason drop) { return node.stats().received[drop]; }

}  // namespace millrace::test
