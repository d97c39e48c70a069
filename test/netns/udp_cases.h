// UDP between two emulated machines, for the conformance suites.
#ifndef MILLRACE_TEST_NETNS_UDP_CASES_H_
#define MILLRACE_TEST_NETNS_UDP_CASES_H_

#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "test/conformance/udp_cases.h"
#include "test/netns/udp_network.h"

namespace millrace::test {

inline TransportCase AcrossCase(int mtu, bool offloads) {
  UdpSocketOptions socket;
  socket.gso = socket.gro = offloads;
  const std::string name = StrCat("UdpAtMtu", mtu, offloads ? "" : "WithoutOffloads");
  return {name,
          [=](const GroupOptions& group) {
            // Sockets keep their namespaces alive, so the network may be destroyed first.
            static std::map<int, std::unique_ptr<Network>> networks;
            auto& network = networks[mtu];
            if (!network) network = std::make_unique<Network>(mtu);
            return AcrossNetwork(*network, group.nodes, UdpOptionsFor(group), socket);
          },
          Network::WhyNot};
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_UDP_CASES_H_
