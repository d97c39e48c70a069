#include "control/cluster_addresses.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/files/file.h"
#include "topology/choose_node.h"
#include "topology/topology.h"

namespace millrace::inline control {

const std::string& ClusterAddresses::AddressOf(const std::string& name) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const auto& each) { return each.first == name; });
  if (found == nodes.end()) throw Error("there is no node \"", name, "\" in the topology");
  return found->second;
}

ClusterAddresses ReadClusterAddresses(const std::string& path, const std::string& node,
                                      bool needs_node) {
  ClusterAddresses addresses;
  if (path.empty()) return addresses;
  const Topology topology = LoadTopology(path, TransportsForTopologies());
  addresses.cluster = topology.name;
  for (const TopologyNode& each : topology.nodes) {
    addresses.nodes.emplace_back(each.name, each.control);
  }
  const auto environment = [](const char* name) -> const char* { return std::getenv(name); };
  if (needs_node) addresses.node = topology.nodes[ChooseNode(topology, node, environment)].name;
  for (const TopologySegment& segment : topology.segments) {
    if (!addresses.key_file.empty() || segment.key_file.empty()) continue;
    addresses.key_file = ResolveBeside(segment.key_file, path);
  }
  return addresses;
}

bool HasControlService(const std::string& topology, const std::string& node) {
  if (topology.empty()) return false;
  const ClusterAddresses addresses = ReadClusterAddresses(topology, node, true);
  return !addresses.AddressOf(addresses.node).empty();
}

NodeAddresses ReadElasticAddresses(const RendezvousOptions& options) {
  const RegistryView view = ReadRegistry(options);
  NodeAddresses nodes;
  for (size_t id = 0; id < view.nodes.size(); ++id) {
    if (view.nodes[id].registered) nodes.emplace_back(StrCat("n", id), view.nodes[id].control);
  }
  return nodes;
}

HttpAddress ExpectHttpAddress(const std::string& text) {
  const std::optional<HttpAddress> address = ParseHttpAddress(text);
  if (!address) {
    throw Error("control service: \"", text,
                "\" given, expected host:port, [IPv6 address]:port, or a port");
  }
  return *address;
}

}  // namespace millrace::inline control
