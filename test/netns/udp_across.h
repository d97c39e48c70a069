// UDP between two machines in miniature.
#ifndef MILLRACE_TEST_NETNS_UDP_ACROSS_H_
#define MILLRACE_TEST_NETNS_UDP_ACROSS_H_

#include <map>
#include <memory>
#include <string>

#include "test/conformance/udp_cases.h"
#include "test/netns/network.h"

namespace millrace::test {

// Node i is on machine i % 2.
inline Group AcrossNetwork(const Network& network, int nodes, const UdpOptions& options,
                           UdpSocketOptions socket) {
  return ConnectUdpGroup(
      nodes,
      [&](int node) {
        std::unique_ptr<UdpSocket> made;
        network.Inside(node % 2, [&] {
          socket.address = Network::AddressOf(node % 2) + ":0";
          made = std::make_unique<UdpSocket>(socket);
        });
        return std::move(*made);
      },
      options);
}

inline TransportCase AcrossCase(int mtu, bool offloads) {
  UdpSocketOptions socket;
  socket.gso = socket.gro = offloads;
  const std::string name = Cat("UdpAtMtu", mtu, offloads ? "" : "WithoutOffloads");
  return {name,
          [=](const GroupOptions& group) {
            // Sockets keep their namespaces, so the network may go first.
            static std::map<int, std::unique_ptr<Network>> networks;
            auto& network = networks[mtu];
            if (!network) network = std::make_unique<Network>(mtu);
            return AcrossNetwork(*network, group.nodes, UdpOptionsFor(group), socket);
          },
          Network::WhyNot};
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_UDP_ACROSS_H_
