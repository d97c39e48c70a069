// Encoding and decoding of frames, the messages between nodes. docs/wire.md specifies every byte.
//
// A frame is a header of 64 bytes, an acknowledgement vector, and a payload, all little-endian. An
// outgoing frame has two pieces, header with vector and payload, so that a payload can be sent in
// place. The functions are stateless. The decoder validates all input.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_FRAME_H_
#define MILLRACE_EXCHANGE_PROTOCOL_FRAME_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/drop_reason.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/sparse_gaps.h"
#include "millrace/node_id.h"

namespace millrace::inline exchange {

inline constexpr uint32_t kFrameMagic = 0x43524c4d;  // "MLRC"
inline constexpr uint8_t kFrameVersion = 6;
inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr uint16_t kNoNode = 0xfffe;
inline constexpr uint32_t kNoChunk = UINT32_MAX;
// Upper bound of node ids, exclusive.
inline constexpr uint16_t kMaxNodes = 4096;
// Largest valid epoch, below the type's maximum so that a next epoch always exists.
inline constexpr uint32_t kMaxEpoch = 0xefffffff;
// Largest number of iterations of one incarnation, or of past ones, in a frame or view. The sum
// over a view fits into an int64_t.
inline constexpr uint64_t kMaxClock = uint64_t{1} << 44;
// Largest number of a position in a frame. Numbers grow by 1.
inline constexpr uint64_t kMaxPositionNumber = uint64_t{1} << 62;
// Largest incarnation of a start, and of a node that raises its own because others know an earlier
// start of it. The exchange has 2^24 left, one for each reset.
inline constexpr uint32_t kLatestIncarnation = UINT32_MAX - (uint32_t{1} << 24);

enum class FrameType : uint8_t {
  kPosition = 1,         // master to all: a chunk's weights, and which diffs they contain
  kDiff = 2,             // worker to master: progress since its last diff
  kPositionAck = 3,      // worker to master: list of positions received
  kTakeoverRequest = 4,  // new master to all: list of chunks and its newest position of each
  kTakeoverAck = 5,      // reply to a request: no newer position; the old master is ignored
  kTakeoverState = 6,    // reply to a request: a newer position
  kHeartbeat = 7,        // to all: the sender is alive, with its status and view
  kPropose = 8,          // coordinator to all: the next view
  kAccept = 9,           // reply to a proposal
};
inline constexpr size_t kFrameTypes = 10;  // 0 is not used
// "position", "takeover_ack", ...
const char* FrameTypeName(FrameType type);

// Identifies a membership view by epoch, coordinator and the coordinator's incarnation.
// The coordinator is part of it because two sides of a partition may reach the same epoch, the
// incarnation because a restarted coordinator has forgotten which epochs it used. Epoch 0: no view.
struct ViewId {
  uint32_t epoch = 0;
  uint16_t coordinator = 0;
  uint32_t incarnation = 0;
  auto operator<=>(const ViewId&) const = default;
  explicit operator bool() const { return epoch != 0; }
};

struct FrameHeader {
  FrameType type = FrameType::kHeartbeat;
  // Encoding of the payload. A position with kSparse is the change since the position before.
  Codec codec = Codec::kFloat32;
  SparseForm sparse_form = SparseForm::kBitmap;  // with kSparse
  bool payload_unchecked = false;  // positions: the checksum covers all but the payload
  // Positions: a diff that a member sent to an earlier master may be missing
  // (ChunkTable::unsettled).
  bool unsettled = false;
  uint64_t run = 0;  // id of the training run; separates clusters on one network
  uint16_t source = 0;
  uint16_t destination = kAllNodes;
  uint32_t incarnation = 0;  // of the source; increases with each start and each new join
  ViewId view;               // the source's view
  uint16_t ack_bytes = 0;    // length of the acknowledgement vector, a multiple of 8
  uint32_t chunk = 0;
  uint32_t length = 0;  // bytes of the payload; not on the wire, follows from the frame's size
  // Position, takeover state: its number. Diff: number of the newest position that its sender had
  // taken when it took the diff.
  // Heartbeat: number of zeros behind its payload.
  uint64_t number = 0;
  uint64_t clock = 0;  // iterations of the source's solvers in this incarnation
  // Diff: its number for this chunk and worker. Takeover state: the sender's PendingMark.
  uint32_t seq = 0;
};

// A decoded frame. `acks` and `payload` point into the received bytes.
struct FrameView {
  FrameHeader header;
  std::span<const std::byte> acks;
  std::span<const std::byte> payload;
};

// Writes the header and `acks` (header.ack_bytes bytes) to `out` (kFrameHeaderBytes +
// header.ack_bytes bytes). The checksum covers both and, unless payload_unchecked, `payload`
// (header.length bytes).
void EncodeFrame(const FrameHeader& header, std::span<const std::byte> acks,
                 std::span<const std::byte> payload, std::span<std::byte> out);

// Decodes `bytes`, which must contain exactly one frame. Returns kNone on success; otherwise
// `frame` is unspecified.
DropReason DecodeFrame(std::span<const std::byte> bytes, FrameView* frame);

// Source and chunk in a frame's first kFrameHeaderBytes bytes. Not validated.
uint16_t FrameSource(std::span<const std::byte> header);
uint32_t FrameChunk(std::span<const std::byte> header);

// Entry of the list in a kPositionAck, kTakeoverRequest or kTakeoverAck frame.
struct ChunkNumber {
  uint32_t chunk = 0;
  uint64_t number = 0;  // of a position; kTakeoverAck: the sender's PendingMark
};
inline constexpr size_t kChunkNumberBytes = 12;
void EncodeChunkNumber(const ChunkNumber& entry, std::byte* out);
ChunkNumber DecodeChunkNumber(const std::byte* in);

// Acknowledgement vectors and other sets of nodes: one bit per node n, bit n % 64 of the
// little-endian word n / 64. "Ack words" are AckWords(max_nodes) such words.
inline constexpr size_t AckWords(uint16_t max_nodes) { return (max_nodes + 63u) / 64u; }
inline bool TestBit(std::span<const std::byte> words, uint16_t node) {
  return std::to_integer<int>(words[node / 8] >> node % 8) & 1;
}
inline void SetBit(std::span<uint64_t> words, uint16_t node, bool bit) {
  const uint64_t mask = uint64_t{1} << node % 64;
  words[node / 64] = bit ? words[node / 64] | mask : words[node / 64] & ~mask;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_FRAME_H_
