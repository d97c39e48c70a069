// Wire format of gossip frames (docs/gossip.md): a head of 64 bytes, little-endian, then a fragment
// of a message, or nothing in an acknowledgement. The functions keep no state. Decoding accepts
// bytes of any content.
#ifndef MILLRACE_SEGMENT_GOSSIP_GOSSIP_MESSAGE_H_
#define MILLRACE_SEGMENT_GOSSIP_GOSSIP_MESSAGE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/drop_reason.h"
#include "millrace/node_id.h"

namespace millrace::inline segment {

inline constexpr uint32_t kGossipMagic = 0x42524c4d;  // "MLRB"
inline constexpr uint8_t kGossipVersion = 1;
inline constexpr size_t kGossipHeadBytes = 64;  // kFrameHeaderBytes, which the frame tag requires
inline constexpr size_t kMaxGossipBytes = 1024;
// Fragments begin at multiples of this within their message.
inline constexpr size_t kGossipFragmentUnit = 8;

// Subjects of messages. Each node has at most one message per key.
enum class GossipKey : uint8_t {
  kTest = 0,      // results of the node's evaluation shard
  kReport = 1,    // measurements of the node
  kEnd = 2,       // the node's state at the end of a run
  kPresence = 3,  // nodes that the node receives frames from
  kSnapshot = 4,  // the newest snapshot that the node has written
  kSettings = 5,  // solver and training net of the node
  kCount
};
inline constexpr size_t kGossipKeys = static_cast<size_t>(GossipKey::kCount);

// Orders the messages of one node and key: those of a later incarnation follow all earlier ones.
// {0, 0} precedes every version.
struct GossipVersion {
  uint32_t incarnation = 0;  // of the origin
  uint64_t number = 0;       // from 1 on in each incarnation
  auto operator<=>(const GossipVersion&) const = default;
};

enum class GossipKind : uint8_t {
  kFragment = 1,  // part of a message
  kAck = 2,       // the sender has this version
};

struct GossipHead {
  GossipKind kind = GossipKind::kFragment;
  GossipKey key = GossipKey::kTest;
  uint64_t run = 0;
  NodeId source = 0, destination = 0;  // of the frame, on this segment
  uint32_t incarnation = 0;            // of the source
  NodeId origin = 0;                   // node that published the message
  GossipVersion version;
  uint16_t total = 0;   // bytes of the whole message
  uint16_t offset = 0;  // of this fragment within the message
};

// Whether DecodeGossip handles the frame, instead of the exchange.
bool IsGossip(std::span<const std::byte> frame);

// Writes the head of a frame; `part` follows it.
void EncodeGossip(const GossipHead& head, std::span<const std::byte> part,
                  std::span<std::byte, kGossipHeadBytes> out);

// Returns kNone or one of kLength to kField. `part` lies in `frame`. Both outputs are undefined
// unless kNone is returned.
DropReason DecodeGossip(std::span<const std::byte> frame, GossipHead* head,
                        std::span<const std::byte>* part);

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_GOSSIP_GOSSIP_MESSAGE_H_
