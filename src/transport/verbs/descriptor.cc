// Describes the verbs transport. Compiled into every build, so it includes no header of verbs.
#include "millrace/transport_registry.h"
#include "transport/credited_endpoint.h"
#include "transport/verbs/wire.h"

namespace millrace::inline transport {
namespace {

// The RDMA path MTU: the largest of 256, 512, 1024, 2048 and 4096 bytes that fits into an Ethernet
// packet of `mtu` bytes with its headers; at least 256.
int64_t RdmaMtu(int64_t mtu) {
  constexpr int64_t kMin = 256, kMax = 4096, kHeaders = 80;
  int64_t bytes = kMax;
  while (bytes > kMin && bytes > mtu - kHeaders) bytes /= 2;
  return bytes;
}

TransportDescriptor VerbsDescriptor() {
  TransportDescriptor verbs;
  verbs.name = "verbs";
  verbs.description = "RDMA datagrams over InfiniBand or RoCE v2";
  verbs.reach = TransportReach::kNetwork;
  verbs.addressing = InetAddressing();
  verbs.has_group = true;
  verbs.options = {"address",        "peers",           "group",         "multicast",
                   "multicast_base", "max_frame_bytes", "window_frames", "receive_buffers",
                   "send_slots",     "silence_ms"};
  verbs.segment_options = CreditedSegmentOptions();
  verbs.frame_bytes = [](int64_t mtu, auto) {
    return RdmaMtu(mtu) - static_cast<int64_t>(sizeof(VerbsPrefix));
  };
  verbs.multicasts = [](const TransportConfig& config) {
    return config.Text("multicast", "auto") != "off";
  };
  return verbs;
}

const RegisterTransport verbs(VerbsDescriptor());

}  // namespace
}  // namespace millrace::inline transport
