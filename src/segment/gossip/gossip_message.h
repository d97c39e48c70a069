// Gossip messages on the wire, byte by byte as docs/gossip.md has them: a head of 64 bytes,
// little-endian, and behind it a part of a gossip message or, in a acknowledgement, nothing.
// Nothing here keeps state; decoding trusts no byte.
#ifndef MILLRACE_SEGMENT_GOSSIP_GOSSIP_MESSAGE_H_
#define MILLRACE_SEGMENT_GOSSIP_GOSSIP_MESSAGE_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/node_id.h"

namespace millrace {

inline constexpr uint32_t kGossipMagic = 0x42524c4d;  // "MLRB"
inline constexpr uint8_t kGossipVersion = 1;
inline constexpr size_t kGossipHeadBytes = 64;  // as those of the exchange: seals ask for it
inline constexpr size_t kMaxGossipBytes = 1024;
// Parts begin at multiples of this within their gossip message.
inline constexpr size_t kGossipFragmentUnit = 8;

// What gossip messages are about; each node has one of each.
enum class GossipKey : uint8_t {
  kTest = 0,      // results of its share of a test
  kReport = 1,    // what it has measured
  kEnd = 2,       // how it stands at the end of a run
  kPresence = 3,  // which nodes it hears
  kSnapshot = 4,  // the newest snapshot that it has written
  kCount
};
inline constexpr size_t kGossipKeys = static_cast<size_t>(GossipKey::kCount);

// Orders the gossip messages of one node on one topic: a later life's come after all of those
// before it. {0, 0} comes before any.
struct GossipVersion {
  uint32_t incarnation = 0;  // of the node that it is from
  uint64_t number = 0;       // from 1 on in each life
  auto operator<=>(const GossipVersion&) const = default;
};

enum class GossipKind : uint8_t {
  kFragment = 1,  // of a gossip message
  kAck = 2,       // the sender has this edition
};

struct GossipHead {
  GossipKind kind = GossipKind::kFragment;
  GossipKey key = GossipKey::kTest;
  uint64_t run = 0;
  NodeId source = 0, destination = 0;  // of the frame, on this segment
  uint32_t incarnation = 0;            // of the source
  NodeId origin = 0;                   // whose gossip message it is
  GossipVersion version;
  uint16_t total = 0;   // bytes of the whole gossip message
  uint16_t offset = 0;  // of this part within it
};

// Why frames have no effect; what the counters are indexed by.
enum class GossipDrop : uint8_t {
  kNone,         // taken
  kLength,       // less than a head
  kMagic,        // not of a gossip message
  kChecksum,     // damaged on the way
  kVersion,      // another version
  kField,        // a field holds a value that no sender writes
  kRun,          // another run's
  kDestination,  // for another node
  kIncarnation,  // of a peer's life that has not completed the handshake
  kStranger,     // no node of the cluster has the origin's id
  kSelf,         // a gossip message of this node's own
  kCount
};
using GossipDrops = std::array<uint64_t, static_cast<size_t>(GossipDrop::kCount)>;
const char* GossipDropName(GossipDrop drop);

// Whether a frame is for DecodeGossip rather than for the exchange.
bool IsGossip(std::span<const std::byte> frame);

// Writes the head of a frame that goes on with `part`.
void EncodeGossip(const GossipHead& head, std::span<const std::byte> part,
                  std::span<std::byte, kGossipHeadBytes> out);

// kLength to kField, or kNone; else `head` and `part`, which lies in `frame`, are undefined.
GossipDrop DecodeGossip(std::span<const std::byte> frame, GossipHead* head,
                        std::span<const std::byte>* part);

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_GOSSIP_GOSSIP_MESSAGE_H_
