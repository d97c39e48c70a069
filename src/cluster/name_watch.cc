#include "cluster/name_watch.h"

#include <utility>

#include "millrace/transport_registry.h"
#include "transport/network_names.h"

namespace millrace::inline cluster {

std::vector<NamedPeer> NamedPeers(const Topology& topology, const NodePlan& plan) {
  std::vector<NamedPeer> named;
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    const TopologySegment& segment = topology.segments[plan.segments[i].segment];
    if (!TransportRegistry::Get().Find(segment.transport)->moves_peers) continue;
    for (const NodeId node : plan.segments[i].peers) {
      const TopologyAdapter& adapter = *topology.nodes[node].FindAdapter(segment.adapter);
      const std::optional<NetworkHost> host = ParseHost(adapter.address);
      if (!host || host->kind != HostKind::kName) continue;
      named.push_back({i, node, HostAndPort(*host, segment.port)});
    }
  }
  return named;
}

std::vector<NamedPeer> NameWatch::Look(
    const std::function<bool(const NamedPeer& peer)>& is_silent) {
  std::vector<NamedPeer> moved;
  const bool is_first = !std::exchange(has_looked_, true);
  for (NamedPeer& peer : peers_) {
    if (!is_silent(peer) && !is_first) continue;
    const std::optional<std::string> address = lookup_(peer.name);
    if (!address || *address == peer.address) continue;
    peer.address = *address;
    if (!is_first) moved.push_back(peer);
  }
  return moved;
}

}  // namespace millrace::inline cluster
