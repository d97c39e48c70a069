// UDP between emulated machines.
#ifndef MILLRACE_TEST_NETNS_UDP_NETWORK_H_
#define MILLRACE_TEST_NETNS_UDP_NETWORK_H_

#include <memory>
#include <utility>
#include <vector>

#include "test/conformance/udp_group.h"
#include "test/netns/network.h"

namespace millrace::test {

// A socket on the machine, at a port that the kernel chooses.
inline UdpSocket SocketInside(const Network& network, int machine, UdpSocketOptions options) {
  std::unique_ptr<UdpSocket> made;
  options.address = Network::AddressOf(machine) + ":0";
  network.Inside(machine, [&] { made = std::make_unique<UdpSocket>(options); });
  return std::move(*made);
}

// Node i is on machine i % 2.
inline std::vector<std::unique_ptr<Transport>> AcrossNetwork(const Network& network, int nodes,
                                                             const UdpOptions& options,
                                                             const UdpSocketOptions& socket) {
  return ConnectUdpGroup(
      nodes, [&](int node) { return SocketInside(network, node % 2, socket); }, options);
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_UDP_NETWORK_H_
