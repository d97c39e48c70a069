// How long the frames of a segment may be, and how long they have to be. Both follow
// from the file alone, so that all nodes cut the weights into the same chunks.
#ifndef MILLRACE_TOPOLOGY_FRAME_ROOM_H_
#define MILLRACE_TOPOLOGY_FRAME_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace {

// The longest frame (header and payload, bytes; below 0 if not even the transport's own
// prefix fits) in a packet of `mtu` bytes. `ipv4`: every node's address is surely of
// IPv4, whose headers are shorter; only udp asks.
int64_t FrameRoom(const std::string& transport, int64_t mtu, bool ipv4);

// The longest frame that holds no weights (bytes): a heartbeat of so many nodes.
// `has_key`: frames are sealed.
int64_t HeartbeatBytes(uint16_t max_nodes, bool has_key);
// The most floats of a chunk for frames of `room` bytes; 0 if not even one fits, or a
// heartbeat does not.
int64_t ChunkFloatsIn(int64_t room, uint16_t max_nodes, bool has_key);

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_FRAME_ROOM_H_
