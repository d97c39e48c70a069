// Bulletins on the wire, byte by byte as docs/bulletins.md has them: a head of 64 bytes,
// little-endian, and behind it a part of a bulletin or, in a receipt, nothing. Nothing here
// keeps state; decoding trusts no byte.
#ifndef MILLRACE_SEGMENT_GOSSIP_GOSSIP_MESSAGE_H_
#define MILLRACE_SEGMENT_GOSSIP_GOSSIP_MESSAGE_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/node_id.h"

namespace millrace {

inline constexpr uint32_t kBulletinMagic = 0x42524c4d;  // "MLRB"
inline constexpr uint8_t kBulletinVersion = 1;
inline constexpr size_t kBulletinHeadBytes = 64;  // as those of the exchange: seals ask for it
inline constexpr size_t kMaxBulletinBytes = 1024;
// Parts begin at multiples of this within their bulletin.
inline constexpr size_t kBulletinGrain = 8;

// What bulletins are about; each node has one of each.
enum class Topic : uint8_t {
  kTest = 0,      // results of its share of a test
  kReport = 1,    // what it has measured
  kEnd = 2,       // how it stands at the end of a run
  kPresence = 3,  // which nodes it hears
  kSnapshot = 4,  // the newest snapshot that it has written
  kCount
};
inline constexpr size_t kTopics = static_cast<size_t>(Topic::kCount);

// Orders the bulletins of one node on one topic: a later life's come after all of those
// before it. {0, 0} comes before any.
struct Edition {
  uint32_t incarnation = 0;  // of the node that it is from
  uint64_t version = 0;      // from 1 on in each life
  auto operator<=>(const Edition&) const = default;
};

enum class BulletinKind : uint8_t {
  kPart = 1,     // of a bulletin
  kReceipt = 2,  // the sender has this edition
};

struct BulletinHead {
  BulletinKind kind = BulletinKind::kPart;
  Topic topic = Topic::kTest;
  uint64_t run = 0;
  NodeId source = 0, destination = 0;  // of the frame, on this segment
  uint32_t incarnation = 0;            // of the source
  NodeId origin = 0;                   // whose bulletin it is
  Edition edition;
  uint16_t total = 0;   // bytes of the whole bulletin
  uint16_t offset = 0;  // of this part within it
};

// Why frames have no effect; what the counters are indexed by.
enum class BulletinDrop : uint8_t {
  kNone,         // taken
  kLength,       // less than a head
  kMagic,        // not of a bulletin
  kChecksum,     // damaged on the way
  kVersion,      // another version
  kField,        // a field holds a value that no sender writes
  kRun,          // another run's
  kDestination,  // for another node
  kLife,         // of a peer's life that has not introduced itself
  kStranger,     // no node of the cluster has the origin's id
  kSelf,         // a bulletin of this node's own
  kCount
};
using BulletinDrops = std::array<uint64_t, static_cast<size_t>(BulletinDrop::kCount)>;
const char* BulletinDropName(BulletinDrop drop);

// Whether a frame is for DecodeBulletin rather than for the exchange.
bool IsBulletin(std::span<const std::byte> frame);

// Writes the head of a frame that goes on with `part`.
void EncodeBulletin(const BulletinHead& head, std::span<const std::byte> part,
                    std::span<std::byte, kBulletinHeadBytes> out);

// kLength to kField, or kNone; else `head` and `part`, which lies in `frame`, are undefined.
BulletinDrop DecodeBulletin(std::span<const std::byte> frame, BulletinHead* head,
                            std::span<const std::byte>* part);

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_GOSSIP_GOSSIP_MESSAGE_H_
