// Raw Ethernet between emulated machines, for the conformance suites.
#ifndef MILLRACE_TEST_NETNS_PACKET_CASES_H_
#define MILLRACE_TEST_NETNS_PACKET_CASES_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "test/conformance/traffic.h"
#include "test/netns/packet_network.h"

namespace millrace::test {

inline PacketOptions PacketOptionsFor(const GroupOptions& group) {
  PacketOptions options;
  options.clock = group.clock;
  options.silence_ms = SilenceMs(group);
  options.ring_blocks = 64;
  if (group.small_queues) {
    options.window_frames = 7;
    options.ring_blocks = 10;
  }
  return options;
}

// Two nodes are connected by a cable, more by the ports of a bridge.
inline TransportCase PacketCase(int mtu) {
  return {StrCat("PacketAtMtu", mtu),
          [=](const GroupOptions& group) {
            // Networks are reused between tests.
            static std::map<std::pair<int, int>, std::unique_ptr<Network>> networks;
            auto& network = networks[{mtu, group.nodes}];
            if (!network) network = std::make_unique<Network>(mtu, group.nodes);
            return ConnectPacketGroup(*network, group.nodes, PacketOptionsFor(group));
          },
          Network::WhyNoBridge};
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_PACKET_CASES_H_
