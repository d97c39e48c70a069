// Frames as raw Ethernet frames between machines of one network segment: no IP, no
// router, the least the kernel does for a frame. Needs CAP_NET_RAW. docs/packet.md has
// the frames byte by byte and the options with their defaults.
//
// Windows and silent peers are as those of the UDP transport (docs/udp.md).
#ifndef MILLRACE_TRANSPORT_PACKET_TRANSPORT_H_
#define MILLRACE_TRANSPORT_PACKET_TRANSPORT_H_

#include <map>
#include <memory>
#include <string>

#include "transport/transport.h"

namespace millrace {

struct PacketOptions {
  NodeId node = 0;
  std::string interface;                // its name, or its Ethernet address
  std::map<NodeId, std::string> peers;  // their Ethernet addresses: xx:xx:xx:xx:xx:xx
  int64_t group = 0;                    // 0 to 65535: clusters on one wire have different ones
  int64_t max_frame_bytes = 0;          // 0: as many as the interface's MTU takes
  int64_t window_frames = 0;            // unconfirmed frames to and from each peer; 0: as
                                        // many as the ring surely holds
  int64_t block_bytes = 0;     // of the receive ring; a multiple of the page; 0: for 3 frames
  int64_t ring_blocks = 1024;  // 2 to 65536
  int64_t send_buffer_bytes = 128 << 10;  // asked of the kernel; from 4096 to 2^30
  int64_t silence_ms = 2000;              // 1 to 3600000, by `clock`
  const Clock* clock = &DefaultClock();
};

// The endpoint of options.node in the network namespace of the calling thread. Throws
// Error with one line that names the option, or says which privilege is missing.
std::unique_ptr<Transport> ConnectPacket(const PacketOptions& options);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_PACKET_TRANSPORT_H_
