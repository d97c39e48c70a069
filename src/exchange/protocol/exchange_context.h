// What the parts of an exchange share. Internal to exchange/.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONTEXT_H_
#define MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONTEXT_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/jitter.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/protocol/chunk_table.h"
#include "exchange/protocol/damping.h"
#include "exchange/protocol/exchange_config.h"
#include "exchange/protocol/frame.h"
#include "exchange/protocol/membership.h"
#include "exchange/protocol/outbox.h"
#include "exchange/protocol/peer_metrics.h"
#include "exchange/protocol/rtt_estimator.h"

namespace millrace {

inline constexpr uint32_t kNoSlot = UINT32_MAX;

// What is needed to go on once an operation has been carried out.
struct OpContext {
  enum class Purpose : uint8_t { kPosition, kPush, kDiff, kTakeoverState };
  Purpose purpose = Purpose::kPosition;
  uint32_t slot = kNoSlot;
  uint64_t number = 0;
  uint32_t seq = 0;
  uint16_t source = kNoNode;
  std::span<const std::byte> acks;
};

// Operations to be carried out together, and what they are for.
class OpBatch {
 public:
  explicit OpBatch(size_t room) : room_(room), ops_(room), contexts_(room) {}

  bool Holds(const Chunk& chunk) const { return chunk.batch == id_; }
  bool Full() const { return count_ == room_; }
  bool empty() const { return count_ == 0; }
  // A new operation on the chunk `index`, and what it is for, to be filled in where they are;
  // there must be room.
  struct Entry {
    ChunkOp& op;
    OpContext& context;
  };
  Entry Add(Chunk* chunk, uint32_t index) {
    chunk->batch = id_;
    ChunkOp& op = ops_[count_] = {};
    op.chunk = index;
    return {op, contexts_[count_++] = {}};
  }
  std::span<ChunkOp> ops() { return {ops_.data(), count_}; }
  // What was added since the last call.
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
  // Nothing is waited for longer than in so many times as long as the silent are found dead.
  static constexpr int64_t kMostPeerTimeouts = 16;
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
  RetransmitTimer round_trip;               // of any answer: for what goes to all
  std::vector<MasterReplies> masters;       // to diffs, by the master that they go to
  int64_t largest_sent_at = INT64_MIN / 2;  // when the last of the largest frames went to all
  TrainingClock clock = {};                 // when frames were last handled
  bool throttled = false;                   // Exchange::SetThrottled

  int64_t floats_of(uint32_t chunk) const { return arrays.floats_of(chunk); }
  uint16_t ack_bytes() const { return static_cast<uint16_t>(table.ack_words() * 8); }
  // Of a position of a whole chunk, behind its header.
  size_t largest_bytes() const { return ack_bytes() + static_cast<size_t>(4 * floats_of(0)); }
  // A diff is acknowledged by its seq's lowest bit: a worker has at most one
  // under way per chunk, so the master has applied that one or the one before.
  static bool Parity(uint32_t seq) { return seq & 1; }
  // Whether `acks` of a position say that what is pending is contained in it.
  bool Acknowledged(const Chunk& chunk, std::span<const std::byte> acks) const {
    return chunk.pending && TestBit(acks, config.node) == Parity(chunk.seq);
  }
  // Why a frame does not hold a position of a chunk, if it does not.
  Drop CheckPosition(const FrameHeader& h) const {
    if (h.chunk >= table.size() || h.length != 4 * floats_of(h.chunk)) return Drop::kChunk;
    return h.ack_bytes != ack_bytes() || h.codec != Codec::kFloat32 ? Drop::kField : Drop::kNone;
  }
  // Goes through the list of a kPositionAck, kTakeoverRequest or kTakeoverAck frame up to the first
  // entry for which `visit(entry, chunk)` returns something else than kNone.
  template <typename Visit>
  Drop ForEachEntry(const FrameView& frame, Visit visit) const {
    if (frame.payload.size() % kChunkNumberBytes != 0) return Drop::kPayload;
    for (size_t at = 0; at < frame.payload.size(); at += kChunkNumberBytes) {
      const ChunkNumber entry = DecodeChunkNumber(frame.payload.data() + at);
      if (entry.chunk >= table.size()) return Drop::kChunk;
      const Drop drop = visit(entry, table.chunks[entry.chunk]);
      if (drop != Drop::kNone) return drop;
    }
    return Drop::kNone;
  }
  // A new operation on the chunk that `frame` names, which takes in its payload.
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
  // The operation writes to the slot's payload.
  void WriteTo(uint32_t slot, ChunkOp* op) const {
    op->out = outbox.payload(slot);
    op->out_bytes = static_cast<uint32_t>(outbox.payload_bytes());
  }

  // A position of the chunk that is sent from the weights themselves has not left.
  bool IsBeingRead(uint32_t index) const {
    return config.direct && outbox.Holds(table.chunks[index].slot, index);
  }

  // Where not all can be sent, how long the answer to a frame of weights is waited for before
  // another one of the same chunk goes out; else 0. Frames may have been refused, because a solver
  // was in those weights.
  int64_t answer_wait() const { return throttled ? kAnswerWaits * config.resend_ns : 0; }
  // How long after the last position of a chunk its progress is sent unasked.
  int64_t push_after() const { return std::max(config.push_after_ns, answer_wait()); }

  void ReadClock() {
    clock = {membership.global_clock(), membership.clock(), membership.view().members.size()};
  }

  // A header with all that does not depend on what the frame says.
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
  // Why the frame is dropped of which an executor has refused the operation.
  static Drop WhyRefused(uint8_t result) {
    if (result & kBusy) return Drop::kBusy;
    return result & kMalformed ? Drop::kPayload : Drop::kNonFinite;
  }
  void Dropped(Drop drop) { ++stats.drops[static_cast<size_t>(drop)]; }
  // Of a node's frame; `source` is below max_nodes.
  void Dropped(Drop drop, uint16_t source) {
    Dropped(drop);
    metrics.Dropped(source, drop);
  }
  // The shortest pause before something is sent again. On a slow link, or with many weights,
  // answers take as long as a sweep.
  int64_t RetransmitTimeout(const RetransmitTimer& trip) const {
    return std::min(trip.Patience(config.resend_ns), kMostPeerTimeouts * config.peer_timeout_ns);
  }
  // A diff was acknowledged.
  void Answered(const Chunk& chunk, int64_t now) {
    MasterReplies& master = masters[chunk.owner];
    master.Answered(now, chunk.taken_at, chunk.sent_at);
    if (chunk.retries == 0 && master.Measures(chunk.taken_at)) {
      round_trip.Sample(now, now - chunk.sent_at);
    }
  }
  // One that was sent once has not been answered in time.
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
  // The pause before `what`, sent again `retries` times already, is sent once more; `least`
  // before it is the first time. Not much longer than the time in which the silent are found
  // dead, if answers are faster: who was only frozen must not wait for long.
  int64_t RetryAfter(int64_t least, uint8_t retries, uint64_t what) const {
    const int64_t pause = least << (retries < 6 ? retries : 6);
    const int64_t most = std::max(config.peer_timeout_ns, least);
    return Spread(std::min(pause, most), config.node, what << 8 | retries);
  }
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_EXCHANGE_CONTEXT_H_
