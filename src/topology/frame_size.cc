#include "topology/frame_size.h"

#include "exchange/protocol/exchange.h"
#include "segment/auth/frame_auth.h"
#include "segment/net_segment.h"

namespace millrace::inline topology {
namespace {

// The settings on which the lengths of frames depend.
ExchangeConfig ExchangeOf(const FrameUse& use) {
  ExchangeConfig config;
  config.max_nodes = use.max_nodes;
  config.max_members = use.members;
  config.codec.codec = use.codec;
  config.position_codec = use.position_codec;
  config.trailer_bytes = use.has_key ? kFrameTagBytes : 0;
  return config;
}

}  // namespace

int64_t HeartbeatBytes(const FrameUse& use) {
  // Exceeds the frame of a single float for any number of nodes.
  return static_cast<int64_t>(MaxFrameBytes(ExchangeOf(use), {.size = 1, .chunk_floats = 1}));
}

int64_t ChunkFloatsIn(int64_t room, const FrameUse& use) {
  if (room < 0) return 0;
  return ChunkFloatsFor(static_cast<size_t>(room), ExchangeOf(use));
}

}  // namespace millrace::inline topology
