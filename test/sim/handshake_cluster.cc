#include "test/sim/handshake_cluster.h"

#include <algorithm>

#include "test/support/support.h"

namespace millrace::sim {

RandomBytes SeededRandom(uint64_t node, uint64_t session_id) {
  auto rng =
      std::make_shared<Rng>(test::Seed(), std::initializer_list<uint64_t>{77, node, session_id});
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
                     .max_iter = 800,
                     .topology_digest = 0xd2};
  return config;
}

uint64_t CountOf(const Handshake& node, DropReason drop) { return node.stats().received[drop]; }

HandshakeCluster::HandshakeCluster(size_t nodes, const LinkFaults& faults, uint64_t seed_name)
    : nodes_(nodes), network_(test::Seed() + seed_name, nodes, faults) {}

void HandshakeCluster::Start(const HandshakeConfig& config, const SecretKey* key) {
  const uint64_t session_id = uint64_t{config.incarnation} << 32 | sent_.size();
  nodes_[config.node] =
      std::make_unique<Handshake>(config, key, SeededRandom(config.node, session_id));
}

void HandshakeCluster::StartAll(const SecretKey* key, bool multicast) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    HandshakeConfig config = ConfigOf(static_cast<NodeId>(i), nodes_.size());
    config.multicast = multicast;
    Start(config, key);
  }
}

void HandshakeCluster::Step() {
  for (NodeId i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == nullptr || nodes_[i]->NextEvent() > now()) continue;
    OutHandshake room[3];
    for (const OutHandshake& out : std::span(room).first(nodes_[i]->Send(room, now()))) {
      SentHandshake frame{i, out.to, out.bytes};
      if (tamper && !tamper(&frame)) continue;
      sent_.push_back(frame);
      network_.Transmit(frame.from, frame.to, frame.bytes, {}, tick_);
    }
  }
  for (NodeId i = 0; i < nodes_.size(); ++i) {
    for (const Network::Arrival& arrival : network_.Arrived(i, tick_)) {
      if (nodes_[i] != nullptr) nodes_[i]->Receive(arrival.from, arrival.view(), now());
    }
  }
}

bool HandshakeCluster::RunUntil(const std::function<bool()>& done, int64_t ms) {
  for (const int64_t end = tick_ + ms; tick_ < end; ++tick_) {
    if (done()) return true;
    Step();
  }
  return done();
}

void HandshakeCluster::Run(int64_t ms) {
  RunUntil([] { return false; }, ms);
}

bool HandshakeCluster::AllEstablished() {
  for (NodeId i = 0; i < nodes_.size(); ++i) {
    for (NodeId j = 0; j < nodes_.size(); ++j) {
      if (i == j || nodes_[i] == nullptr || nodes_[j] == nullptr) continue;
      const auto peer = nodes_[i]->Peer(j);
      if (!peer.has_value() || peer->session_id != nodes_[j]->session_id()) return false;
      if (!nodes_[i]->IsConfirmed(j)) return false;
    }
  }
  return true;
}

}  // namespace millrace::sim
