// How long the frames of a segment may be, and how long they have to be. Both follow
// from the file alone, so that all nodes cut the weights into the same chunks.
#ifndef MILLRACE_TOPOLOGY_FRAME_SIZE_H_
#define MILLRACE_TOPOLOGY_FRAME_SIZE_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace {

// The longest frame (header and payload, bytes; below 0 if not even the transport's own
// prefix fits) in a packet of `mtu` bytes. `ipv4`: every node's address is surely of
// IPv4, whose headers are shorter; only udp asks.
int64_t FrameSize(const std::string& transport, int64_t mtu, bool ipv4);

// Whose frames they are: ids of a segment's nodes are below `max_nodes`, of which `members`
// take part; `has_key`: frames are sealed.
struct FrameUse {
  uint16_t max_nodes = 2;
  uint16_t members = 2;
  bool has_key = false;
};

// The longest frame that holds no weights (bytes): a heartbeat that names all members.
int64_t HeartbeatBytes(const FrameUse& use);
// The most floats of a chunk for frames of `room` bytes; 0 if not even one fits, or a
// heartbeat does not.
int64_t ChunkFloatsIn(int64_t room, const FrameUse& use);

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_FRAME_SIZE_H_
