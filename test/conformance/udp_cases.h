// UDP over this machine's own addresses, for the conformance suites.
#ifndef MILLRACE_TEST_CONFORMANCE_UDP_CASES_H_
#define MILLRACE_TEST_CONFORMANCE_UDP_CASES_H_

#include <string>
#include <vector>

#include "base/error.h"
#include "test/conformance/traffic.h"
#include "test/conformance/udp_group.h"

namespace millrace::test {

inline UdpOptions UdpOptionsFor(const GroupOptions& group) {
  UdpOptions options;
  options.clock = group.clock;
  options.silence_ms = SilenceMs(group);
  if (group.small_queues) {
    options.window_frames = 7;
    options.receive_buffers = 5;
  }
  return options;
}

// `max_frame_bytes` 0: the most that the loopback interface carries in one packet.
inline TransportCase UdpCase(const std::string& name, const UdpSocketOptions& socket,
                             int64_t max_frame_bytes) {
  return {name,
          [=](const GroupOptions& group) {
            UdpOptions options = UdpOptionsFor(group);
            options.max_frame_bytes = max_frame_bytes;
            return ConnectUdpGroup(
                group.nodes, [&](int) { return UdpSocket(socket); }, options);
          },
          [=] {
            try {
              UdpSocket{socket};
              return std::string();
            } catch (const Error& error) {
              return std::string(error.what());
            }
          }};
}

inline std::vector<TransportCase> UdpCases() {
  return {
      UdpCase("Udp", {.address = "127.0.0.1:0"}, 1464),
      UdpCase("UdpWithoutOffloads", {.address = "127.0.0.1:0", .gso = false, .gro = false}, 1464),
      UdpCase("UdpWithLongFrames", {.address = "127.0.0.1:0"}, 0),
      UdpCase("UdpOverIpv6", {.address = "[::1]:0"}, 1440),
      UdpCase("UdpOverIpv6WithoutOffloads", {.address = "[::1]:0", .gso = false, .gro = false},
              8960),
  };
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONFORMANCE_UDP_CASES_H_
