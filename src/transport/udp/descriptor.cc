// Registers the UDP transport.
#include <algorithm>

#include "millrace/transport_registry.h"
#include "transport/credited_endpoint.h"
#include "transport/inet_address.h"
#include "transport/network_names.h"
#include "transport/udp/transport.h"
#include "transport/udp/wire.h"

namespace millrace::inline transport {
namespace {

// Host names, and nodes whose addresses are not known yet, may have IPv6 addresses, whose headers
// are longer.
bool AreIpv4(std::span<const AdapterFields* const> members) {
  return std::all_of(members.begin(), members.end(), [](const AdapterFields* member) {
    const std::optional<NetworkHost> host = ParseHost(member->address);
    return host && host->kind == HostKind::kIpv4;
  });
}

int64_t FrameBytes(int64_t mtu, std::span<const AdapterFields* const> members) {
  const size_t headers = AreIpv4(members) ? kIpv4UdpBytes : kIpv6UdpBytes;
  const int64_t datagram = mtu - static_cast<int64_t>(headers);
  constexpr auto kAlign = static_cast<int64_t>(kUdpAlign);
  return datagram / kAlign * kAlign - static_cast<int64_t>(kUdpPrefixBytes);
}

TransportDescriptor UdpDescriptor() {
  TransportDescriptor udp;
  udp.name = "udp";
  udp.description = "UDP datagrams over any network";
  udp.reach = TransportReach::kNetwork;
  udp.addressing = InetAddressing();
  udp.options = {"address",
                 "peers",
                 "interface",
                 "max_frame_bytes",
                 "fragment",
                 "gso",
                 "gro",
                 "receive_buffer_bytes",
                 "send_buffer_bytes",
                 "receive_buffers",
                 "window_frames",
                 "silence_ms"};
  udp.moves_peers = true;
  udp.segment_options = CreditedSegmentOptions();
  udp.frame_bytes = FrameBytes;
  udp.stays_on_host = [](const AdapterFields& own) { return IsLoopback(*ParseHost(own.address)); };
  return udp;
}

const RegisterTransport udp(UdpDescriptor(), MakeUdp);

}  // namespace
}  // namespace millrace::inline transport
