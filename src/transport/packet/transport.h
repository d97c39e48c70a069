// The packet transport: raw Ethernet frames between machines of one network segment, without IP
// or routers, at the lowest kernel cost per frame. Requires CAP_NET_RAW. docs/packet.md specifies
// the wire format and the options with their defaults.
//
// Flow control and unresponsive peers: as in the UDP transport (docs/udp.md).
#ifndef MILLRACE_TRANSPORT_PACKET_TRANSPORT_H_
#define MILLRACE_TRANSPORT_PACKET_TRANSPORT_H_

#include <map>
#include <memory>
#include <string>

#include "millrace/transport.h"

namespace millrace {
struct TransportConfig;
}
namespace millrace::inline transport {

struct PacketOptions {
  NodeId node = 0;
  std::string interface;                // name or Ethernet address
  std::map<NodeId, std::string> peers;  // their Ethernet addresses: xx:xx:xx:xx:xx:xx
  int64_t group = 0;                    // 0 to 65535; differs between clusters on one wire
  int64_t max_frame_bytes = 0;          // 0: the most that fits the interface's MTU
  // Unacknowledged frames to and from each peer; 0: the most that is certain to fit the ring.
  int64_t window_frames = 0;
  int64_t block_bytes = 0;     // of the receive ring; a multiple of the page size; 0: for 3 frames
  int64_t ring_blocks = 1024;  // 2 to 65536
  int64_t send_buffer_bytes = 128 << 10;  // requested from the kernel; 4096 to 2^30
  int64_t silence_ms = 2000;              // peer timeout; 1 to 3600000, by `clock`
  const Clock* clock = &DefaultClock();
};

// Creates the endpoint of options.node in the calling thread's network namespace. Throws Error
// with one line that names the option or the missing privilege.
std::unique_ptr<Transport> ConnectPacket(const PacketOptions& options);

// The same with the options of `config`.
std::unique_ptr<Transport> MakePacket(const TransportConfig& config);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_PACKET_TRANSPORT_H_
