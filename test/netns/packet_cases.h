// Raw Ethernet between machines in miniature, one node on each.
#ifndef MILLRACE_TEST_NETNS_PACKET_CASES_H_
#define MILLRACE_TEST_NETNS_PACKET_CASES_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "test/conformance/traffic.h"
#include "test/netns/network.h"
#include "transport/packet.h"

namespace millrace::test {

// The options of a node among `nodes`, by the names of `network`'s devices.
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
inline Group ConnectPacketGroup(const Network& network, int nodes, const PacketOptions& options) {
  Group group;
  for (int node = 0; node < nodes; ++node) {
    group.push_back(ConnectInside(network, node, PacketOptionsOf(node, nodes, options)));
  }
  return group;
}

inline PacketOptions PacketOptionsFor(const GroupOptions& group) {
  PacketOptions options;
  options.clock = group.clock;
  options.silence_ms = 300;  // some tests wait until a peer that has gone is given up
  options.ring_blocks = 64;
  if (group.small_queues) {
    options.window_frames = 7;
    options.ring_blocks = 10;
  }
  return options;
}

// Two nodes lie at the ends of a cable, more at the ports of a bridge.
inline TransportCase PacketCase(int mtu) {
  return {Cat("PacketAtMtu", mtu),
          [=](const GroupOptions& group) {
            // Machines stay, so that a test need not make them anew.
            static std::map<std::pair<int, int>, std::unique_ptr<Network>> networks;
            auto& network = networks[{mtu, group.nodes}];
            if (!network) network = std::make_unique<Network>(mtu, group.nodes);
            return ConnectPacketGroup(*network, group.nodes, PacketOptionsFor(group));
          },
          Network::WhyNoBridge};
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_PACKET_CASES_H_
