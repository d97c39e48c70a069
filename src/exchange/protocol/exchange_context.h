// State and helpers shared by the parts of an exchange. Internal to exchange/; not thread-safe.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONTEXT_H_
#define MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONTEXT_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/jitter.h"
#include "base/simd.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/protocol/chunk_table.h"
#include "exchange/protocol/damping.h"
#include "exchange/protocol/exchange_config.h"
#include "exchange/protocol/frame.h"
#include "exchange/protocol/membership.h"
#include "exchange/protocol/outbox.h"
#include "exchange/protocol/peer_metrics.h"
#include "exchange/protocol/position_changes.h"
#include "exchange/protocol/rtt_estimator.h"

namespace millrace::inline exchange {

inline constexpr uint32_t kNoSlot = UINT32_MAX;

// Data needed to continue after an operation has been carried out.
struct OpContext {
  enum class Purpose : uint8_t { kPosition, kPush, kDiff, kTakeoverState };
  Purpose purpose = Purpose::kPosition;
  uint32_t slot = kNoSlot;
  uint64_t number = 0;
  uint32_t seq = 0;
  uint16_t source = kNoNode;
  std::span<const std::byte> acks;
};

// Operations to be carried out together, each with its context.
class OpBatch {
 public:
  explicit OpBatch(size_t room) : room_(room), ops_(room), contexts_(room) {}

  bool Holds(const Chunk& chunk) const { return chunk.batch == id_; }
  bool Full() const { return count_ == room_; }
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  size_t room() const { return room_; }
  // An operation and its context, to be filled in place.
  struct Entry {
    ChunkOp& op;
    OpContext& context;
  };
  // Adds an operation on the chunk `index`, whose row is `chunk`. REQUIRES: !Full().
  Entry Add(Chunk* chunk, uint32_t index) {
    chunk->batch = id_;
    ChunkOp& op = ops_[count_] = {};
    op.chunk = index;
    return {op, contexts_[count_++] = {}};
  }
  std::span<ChunkOp> ops() { return {ops_.data(), count_}; }
  // Operations added since the last call.
  std::span<ChunkOp> TakeFresh() {
    const size_t begin = std::exchange(taken_, count_);
    return {ops_.data() + begin, count_ - begin};
  }
  const OpContext& context(size_t i) const { return contexts_[i]; }
  void Clear() {
    count_ = taken_ = 0;
    ++id_;
  }

 private:
  const size_t room_;
  std::vector<ChunkOp> ops_;
  std::vector<OpContext> contexts_;
  size_t count_ = 0, taken_ = 0;
  uint32_t id_ = 1;
};

struct ExchangeContext {
  // Upper bound on any retransmit timeout, in multiples of the peer timeout.
  static constexpr int64_t kMaxPeerTimeouts = 16;
  // answer_wait(), in multiples of ExchangeConfig::resend_ns.
  static constexpr int64_t kAnswerWaits = 5;

  const ExchangeConfig& config;
  ChunkExecutor& executor;
  const ReplicaArrays& arrays;  // the executor's
  Membership& membership;
  ChunkTable& table;
  Outbox& outbox;
  OpBatch& batch;
  ExchangeStats& stats;
  PeerMetrics& metrics;
  RetransmitTimer round_trip;          // replies of any node; for frames that go to all
  std::vector<MasterReplies> masters;  // by master: its replies to this node's diffs
  std::vector<TakeDelay> delays;       // by chunk; empty without damping
  // When a full-size frame was last sent to all, ns, and how many were, modulo 2^16.
  int64_t full_size_sent_at = INT64_MIN / 2;
  uint16_t full_size_sent = 0;
  TrainingClock clock = {};        // as of the last Receive, Send or change of view
  uint64_t merged_iterations = 0;  // of this node, whose progress is in the weights
  bool on_copies = false;          // TrainingClock::on_copies
  bool throttled = false;          // Exchange::SetThrottled
  int64_t spacing = 0;             // of positions while throttled, as given there
  bool at_end = false;             // Exchange::Flush was called
  // Least payload of a full-size frame, in bytes: that of a full chunk's position, or of the
  // largest heartbeat where chunks are smaller. The same on all nodes.
  size_t full_payload = 0;
  // Time in which the frames of all chunks take a quarter of the link, ns; 0: its rate is unknown.
  // The pause before the retries of a frame grows up to this time. Otherwise retransmissions of
  // what only waits for a reply would fill a slow link and the buffers on the way.
  int64_t resend_pause = 0;
  // Payloads of the batch that executors get in another form than that in which they arrived, by
  // operation: positions as float32, sparse diffs with a bitmap. Empty until one comes.
  std::vector<float> decoded = {};
  std::vector<std::byte> scratch = {};            // a payload
  std::unique_ptr<PositionChanges> changes = {};  // if positions travel as changes
  const Simd simd = BestSimd();

  void SentFullSize(int64_t now) {
    full_size_sent_at = now;
    ++full_size_sent;
  }
  int64_t floats_of(uint32_t chunk) const { return arrays.floats_of(chunk); }
  uint16_t ack_bytes() const { return static_cast<uint16_t>(table.ack_words() * 8); }
  // The lowest bit of its seq acknowledges a diff (alternating-bit protocol): a worker has at most
  // one diff in flight per chunk, so the master has merged either that one or the one before.
  static bool Parity(uint32_t seq) { return seq & 1; }
  // Whether the vector `acks` of a position acknowledges the chunk's pending diff.
  bool Acknowledged(const Chunk& chunk, std::span<const std::byte> acks) const {
    return chunk.pending && TestBit(acks, config.node) == Parity(chunk.seq);
  }
  // What a member tells a new master about its pending diff of a chunk: 0 if it has none, else 2
  // plus the diff's parity.
  static uint32_t PendingMark(const Chunk& chunk) {
    return chunk.pending ? 2 + Parity(chunk.seq) : 0;
  }
  // Returns why a frame does not contain a valid position; kNone if it does. The weights may be
  // other than finite.
  DropReason CheckPosition(const FrameHeader& h) const;
  // Calls `visit(entry, chunk)` for the entries of a kPositionAck, kTakeoverRequest or kTakeoverAck
  // frame, in order. Stops at the first invalid entry or result other than kNone, and returns it.
  template <typename Visit>
  DropReason ForEachEntry(const FrameView& frame, Visit visit) const {
    if (frame.payload.size() % kChunkNumberBytes != 0) return DropReason::kPayload;
    for (size_t at = 0; at < frame.payload.size(); at += kChunkNumberBytes) {
      const ChunkNumber entry = DecodeChunkNumber(frame.payload.data() + at);
      if (entry.chunk >= table.size()) return DropReason::kChunk;
      const DropReason drop = visit(entry, table.chunks[entry.chunk]);
      if (drop != DropReason::kNone) return drop;
    }
    return DropReason::kNone;
  }
  // Adds an operation to the batch, on the chunk and with the payload of `frame`. REQUIRES: room in
  // the batch.
  OpBatch::Entry AddOp(Chunk* chunk, OpContext::Purpose purpose, const FrameView& frame) const {
    const auto [op, context] = batch.Add(chunk, frame.header.chunk);
    op.in = frame.payload.data();
    op.in_bytes = frame.header.length;
    context.purpose = purpose;
    context.number = frame.header.number;
    context.seq = frame.header.seq;
    context.source = frame.header.source;
    context.acks = frame.acks;
    return {op, context};
  }
  // The same for a valid position, whose weights the operation gets as float32. None if the payload
  // of a change has another format.
  std::optional<OpBatch::Entry> AddPosition(Chunk* chunk, const FrameView& frame);
  // The same for a diff, whose present elements the operation gets with a bitmap.
  std::optional<OpBatch::Entry> AddDiff(Chunk* chunk, const FrameView& frame);
  // Whether AddDiff would add an operation.
  bool IsReadable(const FrameView& diff);
  // Makes the sparse payload in the slot, of header->length bytes, shorter if it can be.
  void Compact(uint32_t slot, FrameHeader* header);
  // Allocates what the codecs of this node need. Payloads of another codec allocate when they come.
  void Reserve();
  // Memory in `decoded` for the payload of the next operation of the batch.
  float* DecodedPlace();
  // Makes the slot's payload the output of the operation.
  void WriteTo(uint32_t slot, ChunkOp* op) const {
    op->out = outbox.payload(slot);
    op->out_bytes = static_cast<uint32_t>(outbox.payload_bytes());
  }

  // Whether a frame of the chunk that may be read directly from the replica's arrays is still in
  // the outbox.
  bool IsBeingRead(uint32_t index) const {
    return config.direct && outbox.Holds(table.chunks[index].slot, index);
  }

  // While throttled: how long to wait for the reply to a position or diff before another one of the
  // same chunk is sent, in ns. Otherwise 0. Bounded, because the receiver may have refused the
  // frame while a solver was in those weights (kBusy).
  int64_t answer_wait() const { return throttled ? kAnswerWaits * config.resend_ns : 0; }
  // Time after a chunk's last position at which its progress is sent unsolicited, in ns.
  int64_t push_after() const { return std::max(config.push_after_ns, answer_wait()); }

  void ReadClock() {
    clock = {membership.global_clock(), merged_iterations, membership.view().members.size(),
             on_copies};
  }

  // Returns a header with all fields that do not depend on the frame's content.
  FrameHeader Header(FrameType type, uint16_t destination) const {
    FrameHeader header;
    header.type = type;
    header.run = config.run;
    header.source = config.node;
    header.destination = destination;
    header.incarnation = membership.incarnation();
    header.view = membership.view().id;
    header.clock = membership.clock();
    return header;
  }
  void Post(uint32_t slot, const FrameHeader& header, std::span<const std::byte> acks,
            std::span<const std::byte> payload) {
    ++stats.sent[static_cast<size_t>(header.type)];
    const size_t bytes = kFrameHeaderBytes + acks.size() + payload.size();
    stats.bytes_sent += bytes;
    metrics.Sent(header.destination, bytes);
    outbox.Post(slot, header, acks, payload);
  }
  // Returns the reason to drop a frame whose operation the executor refused with `result`.
  static DropReason WhyRefused(uint8_t result) {
    if (result & kBusy) return DropReason::kBusy;
    return result & kMalformed ? DropReason::kPayload : DropReason::kNonFinite;
  }
  void Dropped(DropReason drop) { stats.drops.Add(drop); }
  // Counts a dropped frame of node `source`, which is below max_nodes.
  void Dropped(DropReason drop, uint16_t source) {
    Dropped(drop);
    metrics.Dropped(source, drop);
  }
  // Time before the first retransmission of a frame, in ns. On a slow link, or with many weights,
  // replies take as long as a sweep. At the end little is under way, so a timeout that was
  // estimated while all nodes were busy, as much as half a minute, is at most the peer timeout, or
  // on a slow link resend_pause.
  int64_t RetransmitTimeout(const RetransmitTimer& trip) const {
    const int64_t limit =
        std::max((at_end ? 1 : kMaxPeerTimeouts) * config.peer_timeout_ns, resend_pause);
    return std::min(trip.Timeout(config.resend_ns), limit);
  }
  // Records that the chunk's pending diff was acknowledged. `consecutive`: by the position after
  // the one before. Else a lost position may have acknowledged it earlier; a measurement would
  // contain the master's own timeout, and would raise that of this node without end.
  void RecordReply(const Chunk& chunk, bool consecutive, int64_t now) {
    // A diff that was made due (Worker::Flush) may not have been sent since.
    const bool measures = consecutive && chunk.sent_at >= chunk.taken_at;
    if (masters[chunk.owner].RecordReply(now, chunk.taken_at, chunk.sent_at, measures)) {
      round_trip.Sample(now, now - chunk.sent_at);
    }
  }
  // Adapts the timeouts to what little is under way after Flush.
  void AtEnd() {
    at_end = true;
    round_trip.AtEnd();
    for (MasterReplies& master : masters) master.round_trip.AtEnd();
  }
  // Records that `master` has not answered a diff in time that was sent once.
  void TimedOut(uint16_t master, int64_t now) {
    for (RetransmitTimer* trip : {&round_trip, &masters[master].round_trip}) {
      trip->TimedOut(now, RetransmitTimeout(*trip));
    }
  }
  void ForgiveAll() {
    round_trip.Forgive();
    for (MasterReplies& master : masters) master.round_trip.Forgive();
  }
  static void Count(uint8_t* times) {
    if (*times < UINT8_MAX) ++*times;
  }
  // Time before item `what`, retransmitted `retries` times already, is sent once more, in ns, with
  // jitter. `least`: the time before the first retransmission. Doubles with each retry, up to 64
  // times `least` and at most max(peer_timeout_ns, least): a peer that was only stalled gets the
  // frame soon after it resumes. On a slow link, from the second one on at least a sixteenth of
  // resend_pause and at most all of it, where these are longer.
  int64_t RetryAfter(int64_t least, uint8_t retries, uint64_t what) const {
    if (retries > 0) least = std::max(least, resend_pause / 16);
    const int64_t pause = least << (retries < 6 ? retries : 6);
    const int64_t most = std::max({config.peer_timeout_ns, resend_pause, least});
    return Spread(std::min(pause, most), config.node, what << 8 | retries);
  }
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONTEXT_H_
