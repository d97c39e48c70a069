#include "exchange/protocol/worker.h"

#include <algorithm>
#include <utility>

namespace millrace::inline exchange {
namespace {

// Maximum chunks checked for unsolicited diffs in one Poll.
constexpr uint32_t kScan = 256;
constexpr int64_t kLongAgo = INT64_MIN / 4;
// A position that does not acknowledge a diff may have left before the diff arrived. The next one
// of the chunk was made after this one had left.
constexpr uint8_t kPassedOver = 2;

// Makes the pending diff due for retransmission.
void MakeDue(Chunk* chunk) {
  chunk->sent_at = kLongAgo;
  ExchangeContext::Count(&chunk->retries);  // excludes its reply from round-trip estimation
}

}  // namespace

// Not before the view counts this node as synced: when many nodes join at the same time, there are
// few masters, which could not take the diffs of all.
bool Worker::MaySend() const {
  return x_.membership.view().id && x_.membership.role() != Role::kJoining &&
         x_.table.unsynced == 0;
}

Codec Worker::codec() const { return x_.at_end ? Codec::kFloat32 : x_.config.codec.codec; }

// Makes all pending diffs due at once: a lost one must not wait for a timeout that was estimated
// while all nodes were busy. No later diff will show that it was lost.
void Worker::Flush() {
  for (uint32_t index = x_.table.pending.front(); index != kNoChunk;) {
    Chunk& chunk = x_.table.chunks[index];
    MakeDue(&chunk);
    index = chunk.next;
  }
  resend_at_ = 0;
}

DropReason Worker::OnPosition(const FrameView& frame) {
  const FrameHeader& h = frame.header;
  ChunkTable& table = x_.table;
  if (const DropReason drop = x_.CheckPosition(h); drop != DropReason::kNone) return drop;
  Chunk& chunk = table.chunks[h.chunk];
  if (chunk.owner != h.source || chunk.state != ChunkState::kWorker) return DropReason::kNotMaster;
  if (x_.IsBeingRead(h.chunk)) return DropReason::kBeingRead;
  if (chunk.number == 0 && h.unsettled) return DropReason::kOld;
  if (h.number <= chunk.number) {
    table.ScheduleReply(h.chunk, &Chunk::ack_due);  // the last acknowledgement may have been lost
    return DropReason::kOld;
  }
  // A change says nothing to a node that lacks the position before.
  const bool is_change = h.codec == Codec::kSparse;
  if (is_change && (h.number != chunk.number + 1 || !x_.changes->has_last(h.chunk))) {
    return DropReason::kOld;
  }
  const std::optional<OpBatch::Entry> entry = x_.AddPosition(&chunk, frame);
  if (!entry) return DropReason::kPayload;
  const auto [op, context] = *entry;
  if (chunk.number == 0) {
    op.kind = ChunkOpKind::kLoad;
    return DropReason::kNone;
  }
  op.acknowledged = x_.Acknowledged(chunk, frame.acks);
  const bool settled = !chunk.pending || op.acknowledged;
  op.kind = ChunkOpKind::kExchange;
  if (!settled || !MaySend() || x_.outbox.Room(Outbox::Use::kDiff) == 0) {
    chunk.swept = x_.table.version - 1;
    Wake();  // Push will look for progress
    return DropReason::kNone;
  }
  chunk.swept = x_.table.version;
  const float share = ShareOf(h.chunk);
  op.take = share > 0;
  if (op.take) context.slot = PrepareTake(share, &op);
  return DropReason::kNone;
}

float Worker::ShareOf(uint32_t index) {
  if (x_.delays.empty()) return 1;
  TakeDelay& delay = x_.delays[index];
  if (!x_.at_end) return delay.Share(x_.clock);
  return x_.config.passes_all_on ? 1 : delay.ShareAtEnd(x_.clock);
}

// Updates the damping state after a take or load, and ends at the rule's fixed point.
void Worker::NoteTake(const ChunkOp& op, Chunk* chunk) {
  const bool held_all = (op.result & (kNonZero | kRemainder)) == kRemainder;
  if (!x_.delays.empty()) x_.delays[op.chunk].OnTaken(x_.clock);
  if (!x_.at_end) return;
  if (held_all && op.share == 1 && x_.config.rest_distance > 0) DropRest(op.chunk, chunk);
}

void Worker::Recheck(Chunk* chunk) {
  chunk->swept = x_.table.version - 1;
  Wake();
}

// The rule sends nothing of the progress that remains. Without it, this replica is equal to its
// master's. A position that is still read from the weights must not change.
void Worker::DropRest(uint32_t index, Chunk* chunk) {
  if (x_.config.passes_all_on) return;
  if (x_.IsBeingRead(index)) return Recheck(chunk);
  ChunkOp op;
  op.kind = ChunkOpKind::kDropRest;
  op.chunk = index;
  x_.executor.Run({&op, 1});
  if (op.result & kRefused) Recheck(chunk);
}

// Prepares `op` to take `share` of the progress. Returns the outbox slot for the diff. After the
// end of training the rest is dropped in the same operation, as another segment may merge progress
// into the weights between two.
inline uint32_t Worker::PrepareTake(float share, ChunkOp* op) {
  op->share = share;
  op->drop_rest = x_.at_end && share < 1;
  const uint32_t slot = x_.outbox.Take(Outbox::Use::kDiff);
  op->codec = codec();
  x_.WriteTo(slot, op);
  if (!InSlot(op->codec)) op->out = nullptr;
  return slot;
}

void Worker::Finish(const ChunkOp& op, const OpContext& context, int64_t now) {
  const bool refused = op.result & kRefused;
  Chunk& chunk = x_.table.chunks[op.chunk];
  const bool asked = context.purpose == OpContext::Purpose::kPosition;
  if (refused) {
    if (asked) x_.Dropped(x_.WhyRefused(op.result), context.source);
    Recheck(&chunk);  // any progress was not taken
  }
  const bool position = !refused && asked;
  if (!refused && (context.slot != kNoSlot || op.kind == ChunkOpKind::kLoad)) NoteTake(op, &chunk);
  if (position) {
    const bool of_new_master = chunk.awaiting_master;
    const bool consecutive = context.number == chunk.number + 1;
    if (x_.changes) x_.changes->SetLast(op.chunk, reinterpret_cast<const float*>(op.in));
    TakenPosition(op.chunk, &chunk, context, now);
    if (op.acknowledged) {
      x_.RecordReply(chunk, consecutive, now);
      x_.metrics.RecordReply(chunk.owner, now - chunk.taken_at);
      x_.table.ClearPending(op.chunk);
    } else if (x_.at_end && of_new_master && chunk.pending) {
      MakeDue(&chunk);  // the new master does not have it
      resend_at_ = 0;
    } else if (chunk.pending) {
      PassedOver(op.chunk, &chunk, now);
    }
  }
  const bool taken = !refused && (op.result & kNonZero);
  if (taken) {
    SendDiff(op, &chunk, context.slot, now);
  } else {
    if (context.slot != kNoSlot) x_.outbox.Release(context.slot);
    if (position) x_.table.ScheduleReply(op.chunk, &Chunk::ack_due);
  }
}

inline void Worker::TakenPosition(uint32_t index, Chunk* chunk, const OpContext& context,
                                  int64_t now) {
  x_.table.OnPosition(index, context.number, context.acks);
  chunk->last_position_at = now;
  if (std::exchange(chunk->awaiting_master, false)) x_.masters[chunk->owner].BecameMaster(now);
  ++x_.stats.positions_taken;
  x_.metrics.TakenPosition(chunk);
}

inline void Worker::SendDiff(const ChunkOp& op, Chunk* chunk, uint32_t slot, int64_t now) {
  ++chunk->seq;
  chunk->pending = true;
  chunk->pending_age = 0;
  chunk->pending_codec = op.out_codec;
  chunk->scale = op.scale;
  chunk->sent_at = chunk->taken_at = now;
  chunk->retries = chunk->passed_over = 0;
  x_.table.pending.PushBack(x_.table.chunks, op.chunk);
  ++x_.stats.diffs_taken;
  x_.stats.diffs_damped += IsStaleShare(op.share, x_.clock.members);
  x_.metrics.SentDiff(chunk->owner);
  PostDiff(op.chunk, chunk, slot, op.out_bytes, op.out != nullptr);
}

inline void Worker::PostDiff(uint32_t index, Chunk* chunk, uint32_t slot, uint32_t bytes,
                             bool in_slot) {
  chunk->slot = slot;
  FrameHeader header = x_.Header(FrameType::kDiff, chunk->owner);
  header.codec = chunk->pending_codec;
  header.chunk = index;
  header.seq = chunk->seq;
  header.number = chunk->number - chunk->pending_age;
  header.length = bytes;
  const std::byte* payload = x_.outbox.payload(slot);
  if (!in_slot) {
    const ReplicaArrays& arrays = x_.arrays;
    const float* from = arrays.pending + int64_t{index} * arrays.chunk_floats;
    header.length = static_cast<uint32_t>(4 * arrays.floats_of(index));
    payload = reinterpret_cast<const std::byte*>(from);
  } else if (header.codec == Codec::kSparse) {
    x_.Compact(slot, &header);
  }
  x_.Post(slot, header, {}, {payload, header.length});
}

// Records a position that does not acknowledge the pending diff. A throttled master orders its
// positions by progress, not by when diffs arrive, so that loss shows only in those of the chunk
// itself.
void Worker::PassedOver(uint32_t index, Chunk* chunk, int64_t now) {
  if (!x_.throttled || now - chunk->sent_at < x_.config.resend_ns ||
      x_.outbox.Holds(chunk->slot, index)) {
    return;
  }
  x_.Count(&chunk->passed_over);
  if (chunk->passed_over == kPassedOver) passed_over_.push_back(index);
}

void Worker::Poll(int64_t now, size_t budget) {
  if (!MaySend()) return;
  budget -= SendPassedOver(now, budget);
  budget -= Resend(now, budget);
  Push(now, budget);
}

size_t Worker::SendPassedOver(int64_t now, size_t budget) {
  size_t sent = 0;
  for (; sent < budget && !passed_over_.empty(); passed_over_.pop_back()) {
    const uint32_t index = passed_over_.back();
    const Chunk& chunk = x_.table.chunks[index];
    // Meanwhile it may have been acknowledged, or sent again.
    if (!chunk.pending || chunk.passed_over < kPassedOver || chunk.owner == kNoNode) continue;
    SendAgain(index, now);
    ++sent;
  }
  return sent;
}

// Scans the pending list, which is ordered by last transmission. Does nothing before the earliest
// time at which a diff may be due.
size_t Worker::Resend(int64_t now, size_t budget) {
  if (now < resend_at_ || budget == 0) return 0;
  ChunkTable& table = x_.table;
  size_t sent = 0;
  resend_at_ = now + x_.config.resend_ns;  // diffs sent from now on are not due before
  for (uint32_t index = table.pending.front(), next; index != kNoChunk; index = next) {
    const Chunk& chunk = table.chunks[index];
    next = chunk.next;
    // A node that takes over a chunk drops its diffs, and sends a position when it has.
    if (chunk.owner == kNoNode || (x_.at_end && chunk.awaiting_master)) continue;
    const int64_t due = MayBeLostAt(chunk, index);
    // A diff that is still in the outbox need not be sent again.
    if (now >= due && x_.outbox.Holds(chunk.slot, index)) continue;
    if (now < due) {
      resend_at_ = std::min(resend_at_, due);
      continue;
    }
    if (sent == budget) {
      resend_at_ = now + x_.config.resend_ns / 4;
      break;
    }
    if (!IsToBeSentAgain(chunk, index, now)) {
      resend_at_ = std::min(resend_at_, now + x_.config.resend_ns / 4);
      continue;
    }
    SendAgain(index, now);
    ++sent;
  }
  if (sent < budget) resend_at_ = std::max(resend_at_, now + x_.answer_wait());
  return sent;
}

// Earliest time at which the pending diff can be declared lost or sent as a probe: other diffs
// cannot have overtaken it by more than the time since it was sent.
int64_t Worker::MayBeLostAt(const Chunk& chunk, uint32_t index) const {
  const MasterReplies& master = x_.masters[chunk.owner];
  const int64_t timeout = x_.RetransmitTimeout(master.round_trip);
  const int64_t least =
      x_.throttled ? timeout : std::min(master.ReorderingWindow(x_.config.resend_ns), timeout);
  return chunk.sent_at + x_.RetryAfter(least, chunk.retries, index);
}

bool Worker::IsToBeSentAgain(const Chunk& chunk, uint32_t index, int64_t now) {
  MasterReplies& master = x_.masters[chunk.owner];
  const int64_t window = master.ReorderingWindow(x_.config.resend_ns);
  const int64_t overtaken = master.Overtaken(chunk.sent_at);
  // Throttled masters send chunks in the order of their progress, so a reply to a later diff is no
  // sign of loss.
  const bool in_order = !x_.throttled;
  if (in_order && overtaken >= x_.RetryAfter(window, chunk.retries, index)) return true;
  const int64_t timeout = x_.RetransmitTimeout(master.round_trip), waited = now - chunk.sent_at;
  if (waited < x_.RetryAfter(timeout, chunk.retries, index)) return false;
  if (!master.Probe(now, timeout)) return false;
  if (chunk.retries == 0) x_.TimedOut(chunk.owner, now);
  return true;
}

void Worker::SendAgain(uint32_t index, int64_t now) {
  Chunk& chunk = x_.table.chunks[index];
  ChunkOp op;
  op.kind = ChunkOpKind::kEncodePending;
  op.codec = chunk.pending_codec;
  op.scale = chunk.scale;
  op.chunk = index;
  const uint32_t slot = x_.outbox.Take(Outbox::Use::kDiff);
  const bool in_slot = InSlot(op.codec);
  if (in_slot) {
    x_.WriteTo(slot, &op);
    x_.executor.Run({&op, 1});
  }
  chunk.sent_at = now;
  chunk.passed_over = 0;
  x_.Count(&chunk.retries);
  x_.table.pending.Remove(x_.table.chunks, index);
  x_.table.pending.PushBack(x_.table.chunks, index);
  PostDiff(index, &chunk, slot, op.out_bytes, in_slot);
  ++x_.stats.resends;
  x_.metrics.Resent(chunk.owner);
}

bool Worker::HasDiffDue(const Chunk& chunk) const {
  return chunk.state == ChunkState::kWorker && chunk.number > 0 && !chunk.pending &&
         !chunk.demoting && chunk.swept != x_.table.version;
}

// Scans the chunks in a circle. Does nothing before the earliest time at which a chunk may be due.
// Positions only postpone that time, and a pending diff ends with a position.
void Worker::Push(int64_t now, size_t budget) {
  if (now < look_at_) return;
  ChunkTable& table = x_.table;
  for (uint32_t scanned = 0; scanned < kScan && !idle() && budget > 0; ++scanned) {
    const uint32_t index = cursor_;
    Chunk& chunk = table.chunks[index];
    if (index == 0) oldest_position_at_ = now;
    if (chunk.state == ChunkState::kWorker && !chunk.pending) {
      oldest_position_at_ = std::min(oldest_position_at_, chunk.last_position_at);
    }
    if (++cursor_ == table.size()) {
      cursor_ = 0;
      look_at_ = oldest_position_at_ + x_.push_after();
    }
    if (!HasDiffDue(chunk)) {
      clean_ = chunk.demoting ? 0 : clean_ + 1;
      continue;
    }
    clean_ = 0;
    if (now - chunk.last_position_at < x_.push_after() || chunk.owner == kNoNode) continue;
    if (x_.batch.Full() || x_.batch.Holds(chunk)) break;
    chunk.swept = table.version;
    const float share = ShareOf(index);
    if (share == 0) continue;
    const auto [op, context] = x_.batch.Add(&chunk, index);
    op.kind = ChunkOpKind::kTake;
    context.purpose = OpContext::Purpose::kPush;
    context.slot = PrepareTake(share, &op);
    --budget;
  }
}

void Worker::RecheckAll() {
  for (Chunk& chunk : x_.table.chunks) chunk.swept = x_.table.version - 1;
  Wake();
}

bool Worker::Drained() const {
  return std::all_of(x_.table.chunks.begin(), x_.table.chunks.end(), [&](const Chunk& chunk) {
    return chunk.state == ChunkState::kWorker && !chunk.pending && !HasDiffDue(chunk) &&
           !chunk.awaiting_master && !chunk.demoting;
  });
}

}  // namespace millrace::inline exchange
