// Raw Ethernet between emulated machines, one node on each.
#ifndef MILLRACE_TEST_NETNS_PACKET_NETWORK_H_
#define MILLRACE_TEST_NETNS_PACKET_NETWORK_H_

#include <memory>
#include <vector>

#include "test/netns/network.h"
#include "transport/packet/transport.h"

namespace millrace::test {

// The options of one of `nodes` nodes, with the MAC addresses of Network's devices.
inline PacketOptions PacketOptionsOf(int node, int nodes, PacketOptions options = {}) {
  options.node = static_cast<NodeId>(node);
  options.interface = Network::DeviceOf(node);
  for (int peer = 0; peer < nodes; ++peer) {
    if (peer != node) options.peers[static_cast<NodeId>(peer)] = Network::MacOf(peer);
  }
  return options;
}

inline std::unique_ptr<Transport> ConnectInside(const Network& network, int machine,
                                                const PacketOptions& options) {
  std::unique_ptr<Transport> end;
  network.Inside(machine, [&] { end = ConnectPacket(options); });
  return end;
}

// Node i is on machine i.
inline std::vector<std::unique_ptr<Transport>> ConnectPacketGroup(const Network& network, int nodes,
                                                                  const PacketOptions& options) {
  std::vector<std::unique_ptr<Transport>> group;
  for (int node = 0; node < nodes; ++node) {
    group.push_back(ConnectInside(network, node, PacketOptionsOf(node, nodes, options)));
  }
  return group;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_PACKET_NETWORK_H_
