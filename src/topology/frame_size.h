// Minimum length of a segment's frames, and the chunks that fit into frames of a given length. Both
// depend on the topology file only, so that all nodes divide the weights into the same chunks.
#ifndef MILLRACE_TOPOLOGY_FRAME_SIZE_H_
#define MILLRACE_TOPOLOGY_FRAME_SIZE_H_

#include <cstdint>

#include "exchange/kernels/chunk_op.h"

namespace millrace::inline topology {

// Properties of a segment that determine the lengths of its frames: node ids are below `max_nodes`;
// `members` nodes take part; with `has_key`, each frame carries a frame tag. Chunks depend
// on whether a codec is int4.
struct FrameUse {
  uint16_t max_nodes = 2;
  uint16_t members = 2;
  bool has_key = false;
  Codec codec = Codec::kFloat32, position_codec = Codec::kFloat32;
};

// Length, in bytes, of the longest frame without weights: a heartbeat that lists all members.
int64_t HeartbeatBytes(const FrameUse& use);
// Maximum floats of a chunk for frames of `room` bytes; 0 if not even one float or a heartbeat
// fits.
int64_t ChunkFloatsIn(int64_t room, const FrameUse& use);

}  // namespace millrace::inline topology

#endif  // MILLRACE_TOPOLOGY_FRAME_SIZE_H_
