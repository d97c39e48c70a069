#include "test/sim/gossip_cluster.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace millrace::sim {

GossipCluster::GossipCluster(const Shape& shape, const LinkFaults& faults, size_t frame_bytes,
                             uint64_t seed)
    : shape_(shape), frame_bytes_(frame_bytes), nodes_(shape.nodes), incarnations_(shape.nodes) {
  for (size_t s = 0; s < shape.segments.size(); ++s) {
    networks_.emplace_back(seed + s, shape.nodes, faults);
  }
}

void GossipCluster::Start(NodeId node) {
  Node& one = nodes_[node];
  one = {};
  const uint32_t incarnation = ++incarnations_[node];
  one.store = std::make_unique<GossipStore>(nodes_.size(), node, incarnation);
  one.links.resize(shape_.segments.size());
  for (size_t s = 0; s < shape_.segments.size(); ++s) {
    const std::vector<NodeId>& members = shape_.segments[s];
    if (std::find(members.begin(), members.end(), node) == members.end()) continue;
    GossipConfig config;
    config.run = kRun + s;
    config.node = node;
    config.incarnation = incarnation;
    config.max_frame_bytes = frame_bytes_;
    std::copy_if(members.begin(), members.end(), std::back_inserter(config.peers),
                 [&](NodeId peer) { return peer != node; });
    one.links[s] = std::make_unique<Gossip>(config, one.store.get());
  }
  Establish();
}

void GossipCluster::StartAll() {
  for (NodeId node = 0; node < nodes_.size(); ++node) Start(node);
}

void GossipCluster::Establish() {
  for (size_t s = 0; s < shape_.segments.size(); ++s) {
    for (const NodeId a : shape_.segments[s]) {
      for (const NodeId b : shape_.segments[s]) {
        if (a != b && nodes_[a].store && nodes_[b].store) link(a, s).Admit(b, incarnations_[b]);
      }
    }
  }
}

void GossipCluster::set_faults(const LinkFaults& faults) {
  for (Network& network : networks_) network.set_faults(faults);
}

void GossipCluster::Publish(NodeId node, const std::string& text, GossipKey key) {
  nodes_[node].store->Publish(key, std::as_bytes(std::span(text)));
}

std::string GossipCluster::Read(NodeId node, NodeId publisher, GossipKey key) const {
  for (const GossipMessage& each : nodes_[node].store->Read(key)) {
    if (each.node != publisher) continue;
    return {reinterpret_cast<const char*>(each.bytes.data()), each.bytes.size()};
  }
  return "-";
}

bool GossipCluster::AllRead(NodeId publisher, const std::string& text) const {
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].store && Read(node, publisher) != text) return false;
  }
  return true;
}

void GossipCluster::Step() {
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    for (size_t s = 0; s < nodes_[node].links.size(); ++s) {
      Gossip* const link = nodes_[node].links[s].get();
      if (link == nullptr || link->NextEvent() > now()) continue;
      OutGossip room[3];
      for (OutGossip& out : std::span(room).first(link->Send(room, now()))) {
        if (out.frame().size() > frame_bytes_) throw Error("gossip: a frame is too long");
        ++sent_;
        networks_[s].Transmit(node, out.to, out.frame(), {}, tick_);
      }
    }
  }
  for (size_t s = 0; s < networks_.size(); ++s) {
    for (const NodeId node : shape_.segments[s]) {
      for (const Network::Arrival& arrival : networks_[s].Arrived(node, tick_)) {
        if (nodes_[node].store) link(node, s).Receive(arrival.from, arrival.view(), now());
      }
    }
  }
}

void GossipCluster::Run(int64_t ms) {
  for (const int64_t end = tick_ + ms; tick_ < end; ++tick_) Step();
}

bool GossipCluster::Quiet() const {
  return std::all_of(networks_.begin(), networks_.end(),
                     [](const Network& network) { return network.empty(); }) &&
         std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
           return std::all_of(node.links.begin(), node.links.end(), [](const auto& link) {
             return link == nullptr || link->NextEvent() == INT64_MAX;
           });
         });
}

bool GossipCluster::Settles(int64_t ms) {
  for (const int64_t end = tick_ + ms; tick_ < end; ++tick_) {
    Step();
    if (Quiet()) return true;
  }
  return false;
}

}  // namespace millrace::sim
