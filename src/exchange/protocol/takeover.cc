#include "exchange/protocol/takeover.h"

#include <algorithm>

namespace millrace::inline exchange {

Takeover::Takeover(ExchangeContext* context)
    : x_(*context),
      waiting_(x_.table.size() * x_.table.ack_words()),
      parities_(x_.table.size() * x_.table.ack_words()),
      everybody_(x_.table.ack_words()) {
  demoting_.reserve(x_.table.size());
  demotions_.reserve(x_.table.size());
}

void Takeover::OnView(std::span<const uint16_t> owners) {
  ChunkTable& table = x_.table;
  std::fill(everybody_.begin(), everybody_.end(), 0);
  for (const Member& member : x_.membership.view().members) {
    if (member.node != x_.config.node) SetBit(everybody_, member.node, true);
  }
  table.owned.clear();
  table.ClearReplies();
  taking_over_ = 0;
  for (uint32_t index = 0; index < table.size(); ++index) {
    Chunk& chunk = table.chunks[index];
    const bool mine = owners[index] == x_.config.node;
    if (chunk.owner != owners[index]) {
      chunk.awaiting_master = true;
      chunk.retries = 0;
    }
    chunk.owner = owners[index];
    if (chunk.state == ChunkState::kMaster && !mine) GiveUp(index);
    if (chunk.state == ChunkState::kTakingOver) chunk.state = ChunkState::kWorker;
    if (!mine) continue;
    table.owned.push_back(index);
    if (chunk.state != ChunkState::kMaster) RequestTakeover(index);
  }
  Demote();
  cursor_ = 0;
  rounds_ = 0;
  round_open_ = taking_over_ > 0;
}

// The current weights become the node's last position of the chunk; none of them counts as unsent
// progress. With ExchangeConfig::merges_own, that position is the master's weight, and the progress
// of this node that it does not have is unsent.
void Takeover::GiveUp(uint32_t index) {
  Chunk& chunk = x_.table.chunks[index];
  chunk.demoting = true;
  demoting_.push_back(index);
  chunk.swept = x_.table.version - x_.config.merges_own;
  chunk.state = ChunkState::kWorker;
  ++chunk.number;
  chunk.pending = chunk.dirty = false;
  chunk.retries = 0;
}

// Waits for positions that are still read directly from the weights. Such a position may contain
// later progress of this node, so the state that the node hands over must contain it too. Otherwise
// the other nodes would see that progress and then miss it for a while.
void Takeover::Demote() {
  std::erase_if(demoting_, [&](uint32_t index) {
    Chunk& chunk = x_.table.chunks[index];
    if (chunk.demoting && x_.IsBeingRead(index)) return false;
    if (!chunk.demoting) return true;  // the table was reset for a new incarnation
    chunk.demoting = false;
    ChunkOp op;
    op.kind = x_.config.merges_own ? ChunkOpKind::kTakeBack : ChunkOpKind::kDemote;
    op.chunk = index;
    demotions_.push_back(op);
    if (!x_.delays.empty()) x_.delays[index].Restart(x_.clock);
    return true;
  });
  if (!demotions_.empty()) x_.executor.Run(demotions_);
  demotions_.clear();
}

void Takeover::RequestTakeover(uint32_t index) {
  x_.table.chunks[index].state = ChunkState::kTakingOver;
  std::copy(everybody_.begin(), everybody_.end(), waiting(index).begin());
  ++taking_over_;
}

// Takeovers that need no reply are completed here and not in OnView, because the rows of Master
// exist only after Master::OnView.
void Takeover::Poll(int64_t now, size_t budget) {
  if (!demoting_.empty()) Demote();
  if (taking_over_ == 0) return;
  ChunkTable& table = x_.table;
  if (!round_open_ &&
      now - round_at_ >= x_.RetryAfter(x_.RetransmitTimeout(x_.round_trip), rounds_, kNoChunk)) {
    round_open_ = true;
    x_.Count(&rounds_);
  }
  const size_t capacity = x_.outbox.payload_bytes() / kChunkNumberBytes;
  while (round_open_ && budget > 0) {
    const uint32_t slot = x_.outbox.Take(Outbox::Use::kRest);
    size_t entries = 0;
    for (; cursor_ < table.owned.size() && entries < capacity; ++cursor_) {
      const uint32_t index = table.owned[cursor_];
      const Chunk& chunk = table.chunks[index];
      if (chunk.state != ChunkState::kTakingOver || chunk.demoting) continue;
      // Becomes the master if no other member is to be asked.
      RecordReply(index, x_.config.node, 0);
      if (chunk.state != ChunkState::kTakingOver) continue;
      EncodeChunkNumber({index, chunk.number},
                        x_.outbox.payload(slot) + kChunkNumberBytes * entries++);
    }
    if (entries > 0) {
      FrameHeader header = x_.Header(FrameType::kTakeoverRequest, kAllNodes);
      header.length = static_cast<uint32_t>(kChunkNumberBytes * entries);
      x_.Post(slot, header, {}, {x_.outbox.payload(slot), header.length});
      --budget;
    } else {
      x_.outbox.Release(slot);
    }
    if (cursor_ < table.owned.size()) continue;
    cursor_ = 0;
    round_open_ = false;
    round_at_ = now;
  }
}

DropReason Takeover::OnTakeoverRequest(const FrameView& frame) {
  return x_.ForEachEntry(frame, [&](const ChunkNumber& entry, const Chunk& chunk) {
    if (chunk.owner != frame.header.source) return DropReason::kNotMaster;
    if (chunk.demoting) return DropReason::kNone;  // the new master will ask again
    x_.table.ScheduleReply(entry.chunk, chunk.number > entry.number ? &Chunk::takeover_state_due
                                                                    : &Chunk::takeover_ack_due);
    return DropReason::kNone;
  });
}

DropReason Takeover::OnTakeoverAck(const FrameView& frame) {
  return x_.ForEachEntry(frame, [&](const ChunkNumber& entry, const Chunk& chunk) {
    if (chunk.state == ChunkState::kTakingOver) {
      RecordReply(entry.chunk, frame.header.source, entry.number);
    }
    return DropReason::kNone;
  });
}

DropReason Takeover::OnTakeoverState(const FrameView& frame) {
  const FrameHeader& h = frame.header;
  if (const DropReason drop = x_.CheckPosition(h); drop != DropReason::kNone) return drop;
  if (h.codec != Codec::kFloat32) return DropReason::kField;
  Chunk& chunk = x_.table.chunks[h.chunk];
  if (chunk.state != ChunkState::kTakingOver) return DropReason::kOld;
  if (x_.IsBeingRead(h.chunk)) return DropReason::kBeingRead;
  if (h.number <= chunk.number) {
    RecordReply(h.chunk, h.source, h.seq);
    return DropReason::kOld;
  }
  ChunkOp& op = x_.AddOp(&chunk, OpContext::Purpose::kTakeoverState, frame).op;
  op.kind = chunk.number == 0 ? ChunkOpKind::kLoad : ChunkOpKind::kExchange;
  op.acknowledged = x_.Acknowledged(chunk, frame.acks);
  return DropReason::kNone;
}

void Takeover::Finish(const ChunkOp& op, const OpContext& context) {
  if (op.result & kRefused) {
    // The executor refused the state: this node does not know the position, so it does not answer.
    x_.Dropped(x_.WhyRefused(op.result), context.source);
    return;
  }
  x_.table.OnPosition(op.chunk, context.number, context.acks);
  ++x_.stats.takeover_states_taken;
  if (op.acknowledged) x_.table.ClearPending(op.chunk);
  RecordReply(op.chunk, context.source, context.seq);
}

void Takeover::RecordReply(uint32_t index, uint16_t node, uint64_t pending_mark) {
  const auto unsynced = waiting(index);
  SetBit(unsynced, node, false);
  SetBit(x_.table.unsettled(index), node, pending_mark != 0);
  SetBit(parities(index), node, ExchangeContext::Parity(static_cast<uint32_t>(pending_mark)));
  if (std::all_of(unsynced.begin(), unsynced.end(), [](uint64_t word) { return word == 0; })) {
    BecomeMaster(index);
  }
}

// Weights that no other node has are the master's. Else `base - pending` is, and the next position
// merges the progress of this node, the pending diff among it.
void Takeover::PrepareToMerge(uint32_t index) {
  Chunk& chunk = x_.table.chunks[index];
  chunk.swept = x_.table.version - 1;
  if (chunk.number > 0) return;
  ChunkOp op;
  op.kind = ChunkOpKind::kDemote;
  op.chunk = index;
  x_.executor.Run({&op, 1});
}

// The pending diff is in this node's weights already, and leaves with the next position.
void Takeover::BecomeMaster(uint32_t index) {
  ChunkTable& table = x_.table;
  Chunk& chunk = table.chunks[index];
  if (chunk.pending) table.ClearPending(index);
  if (chunk.number == 0) --table.unsynced;
  if (x_.config.merges_own) PrepareToMerge(index);
  const std::span<const uint64_t> merged = table.acks(index);
  for (size_t i = 0; i < merged.size(); ++i) {
    table.unsettled(index)[i] &= merged[i] ^ parities(index)[i];
  }
  chunk.awaiting_master = false;
  chunk.state = ChunkState::kMaster;
  chunk.dirty = true;
  chunk.retries = 0;
  table.SetAck(index, x_.config.node, ExchangeContext::Parity(chunk.seq));
  --taking_over_;
  ++x_.stats.takeovers;
}

}  // namespace millrace::inline exchange
