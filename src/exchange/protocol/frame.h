// Frames: what travels between nodes, byte by byte as docs/wire.md says.
//
// A frame is a header of 64 bytes, an acknowledgement vector, and a payload, all
// little-endian. On the way out header and vector form one piece and the payload
// another, so that a payload may be sent from where it is. Nothing here keeps
// state; decoding trusts no byte.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_FRAME_H_
#define MILLRACE_EXCHANGE_PROTOCOL_FRAME_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/node_id.h"
#include "exchange/kernels/chunk_op.h"

namespace millrace {

inline constexpr uint32_t kFrameMagic = 0x43524c4d;  // "MLRC"
inline constexpr uint8_t kFrameVersion = 2;
inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr uint16_t kNoNode = 0xfffe;
inline constexpr uint32_t kNoChunk = UINT32_MAX;
// Ids of nodes are below this.
inline constexpr uint16_t kMaxNodes = 4096;
// Epochs are not above this, so that the next one always exists.
inline constexpr uint32_t kMaxEpoch = 0xefffffff;

enum class FrameType : uint8_t {
  kPosition = 1,         // master to all: a chunk's weights, and what has been merged
  kDiff = 2,             // worker to master: what its side has added
  kPositionAck = 3,      // worker to master: list of positions received
  kTakeoverRequest = 4,  // new master to all: list of chunks it takes over, its newest position
  kTakeoverAck = 5,    // answer to a claim: nothing newer here, and no old master is heard any more
  kTakeoverState = 6,  // answer to a claim: a newer position
  kHeartbeat = 7,      // to all: alive, in this view
  kPropose = 8,        // coordinator to all: the next view
  kAccept = 9,         // answer to a proposal
};

// Names a membership view: the epoch, the node that formed it, because two halves
// of a divided cluster may reach the same epoch, and that node's incarnation, because
// it forgets which epochs it has used when it starts again. Epoch 0 is no view.
struct ViewId {
  uint32_t epoch = 0;
  uint16_t coordinator = 0;
  uint32_t life = 0;
  auto operator<=>(const ViewId&) const = default;
  explicit operator bool() const { return epoch != 0; }
};

struct FrameHeader {
  FrameType type = FrameType::kHeartbeat;
  Codec codec = Codec::kFloat32;   // of the payload
  bool payload_unchecked = false;  // positions: the checksum covers all but the payload
  uint64_t run = 0;                // of the training run: two clusters on one wire never mix
  uint16_t source = 0;
  uint16_t destination = kAllNodes;
  uint32_t incarnation = 0;  // of the source: rises whenever it begins anew
  ViewId view;               // the source's
  uint16_t ack_bytes = 0;    // length of the acknowledgement vector, a multiple of 8
  uint32_t chunk = 0;
  uint32_t length = 0;  // of the payload, bytes; not sent: what the frame's own leaves
  // Position, return: its number. Diff: the number of the position it was computed
  // against. Heartbeat: how many zeros are behind its payload.
  uint64_t number = 0;
  uint64_t clock = 0;  // iterations that the source's solvers have done in this incarnation
  uint32_t seq = 0;    // diff: its number within its chunk and worker
};

// A frame that was decoded; acks and payload point into the bytes received.
struct FrameView {
  FrameHeader header;
  std::span<const std::byte> acks;
  std::span<const std::byte> payload;
};

// Why frames are dropped; what the counters are indexed by.
enum class Drop : uint8_t {
  kNone,         // not dropped
  kShort,        // less than a header
  kMagic,        // not ours
  kVersion,      // another version
  kField,        // a field holds a value that no sender writes
  kLength,       // less than its acknowledgement vector takes
  kChecksum,     // damaged on the way
  kRun,          // another run's
  kSelf,         // our own, looped back
  kDestination,  // for another node
  kStranger,     // not from a member of our view, or from an earlier life of one
  kView,         // sent in another view
  kChunk,        // no such chunk, or of another size
  kNotMaster,    // a position from a node that is not the chunk's master, or a diff
                 // to one that is not
  kOld,          // overtaken: a position or diff that was already taken
  kNonFinite,    // NaN or Inf inside
  kPayload,      // the payload is not what its codec says
  kBeingRead,    // a frame that is read from the chunk's weights has not left yet
  kBusy,         // a solver was in the chunk's weights; to its sender, it was lost
  kCount
};
const char* DropName(Drop drop);

// Writes the header's 64 bytes and `acks` (header.ack_bytes of them) to `out`
// (kFrameHeaderBytes + header.ack_bytes), with the checksum over these and, unless
// payload_unchecked, over `payload` (header.length bytes).
void EncodeFrame(const FrameHeader& header, std::span<const std::byte> acks,
                 std::span<const std::byte> payload, std::span<std::byte> out);

// Decodes all that `bytes` hold: one frame, no more and no less. kNone on success;
// otherwise `frame` is undefined.
Drop DecodeFrame(std::span<const std::byte> bytes, FrameView* frame);

// The source and the chunk that a frame's first kFrameHeaderBytes name, which have not
// been checked.
uint16_t FrameSource(std::span<const std::byte> header);
uint32_t FrameChunk(std::span<const std::byte> header);

// An entry of the lists that kPositionAck, kTakeoverRequest and kTakeoverAck frames carry.
struct ChunkNumber {
  uint32_t chunk = 0;
  uint64_t number = 0;
};
inline constexpr size_t kChunkNumberBytes = 12;
void EncodeChunkNumber(const ChunkNumber& entry, std::byte* out);
ChunkNumber DecodeChunkNumber(const std::byte* in);

// Acknowledgement vectors, and other sets of nodes: one bit a node, bit n % 64 of the
// little-endian word n / 64.
inline constexpr size_t AckWords(uint16_t max_nodes) { return (max_nodes + 63u) / 64u; }
inline bool TestBit(std::span<const std::byte> words, uint16_t node) {
  return std::to_integer<int>(words[node / 8] >> node % 8) & 1;
}
inline void SetBit(std::span<uint64_t> words, uint16_t node, bool bit) {
  const uint64_t mask = uint64_t{1} << node % 64;
  words[node / 64] = bit ? words[node / 64] | mask : words[node / 64] & ~mask;
}

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_FRAME_H_
