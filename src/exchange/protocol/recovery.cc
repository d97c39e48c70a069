#include "exchange/protocol/recovery.h"

#include <algorithm>

namespace millrace {

Recovery::Recovery(ExchangeContext* context)
    : x_(*context),
      waiting_(x_.table.size() * x_.table.ack_words()),
      everybody_(x_.table.ack_words()) {
  freezing_.reserve(x_.table.size());
  freezes_.reserve(x_.table.size());
}

void Recovery::OnView(std::span<const uint16_t> owners) {
  ChunkTable& table = x_.table;
  std::fill(everybody_.begin(), everybody_.end(), 0);
  for (const Member& member : x_.membership.view().members) {
    if (member.node != x_.config.node) SetBit(everybody_, member.node, true);
  }
  table.owned.clear();
  table.ForgetOwed();
  recovering_ = 0;
  for (uint32_t index = 0; index < table.size(); ++index) {
    Chunk& chunk = table.chunks[index];
    const bool mine = owners[index] == x_.config.node;
    if (chunk.owner != owners[index]) {
      chunk.handed_over = true;
      chunk.retries = 0;
    }
    chunk.owner = owners[index];
    if (chunk.state == ChunkState::kMaster && !mine) GiveUp(index);
    if (chunk.state == ChunkState::kRecovering) chunk.state = ChunkState::kWorker;
    if (!mine) continue;
    table.owned.push_back(index);
    if (chunk.state != ChunkState::kMaster) BeginClaim(index);
  }
  Freeze();
  cursor_ = 0;
  rounds_ = 0;
  round_open_ = recovering_ > 0;
}

// What is in the weights now is the last position; nothing of it is one's own.
void Recovery::GiveUp(uint32_t index) {
  Chunk& chunk = x_.table.chunks[index];
  chunk.freezing = true;
  freezing_.push_back(index);
  chunk.swept = x_.table.version;
  chunk.state = ChunkState::kWorker;
  ++chunk.number;
  chunk.pending = chunk.dirty = false;
  chunk.retries = 0;
}

// What a position that is read late shows of this node's own progress must be in what it hands
// over: else the others would see it, and then not see it for a while.
void Recovery::Freeze() {
  std::erase_if(freezing_, [&](uint32_t index) {
    Chunk& chunk = x_.table.chunks[index];
    if (chunk.freezing && x_.IsBeingRead(index)) return false;
    if (!chunk.freezing) return true;  // this node has begun anew
    chunk.freezing = false;
    ChunkOp op;
    op.kind = ChunkOpKind::kFreeze;
    op.chunk = index;
    freezes_.push_back(op);
    return true;
  });
  if (!freezes_.empty()) x_.executor.Run(freezes_);
  freezes_.clear();
}

void Recovery::BeginClaim(uint32_t index) {
  x_.table.chunks[index].state = ChunkState::kRecovering;
  std::copy(everybody_.begin(), everybody_.end(), waiting(index).begin());
  ++recovering_;
}

// Rows of the master's table exist only after OnView, so chunks that nobody else has
// to be asked about are promoted here and not there.
void Recovery::Poll(int64_t now, size_t budget) {
  if (!freezing_.empty()) Freeze();
  if (recovering_ == 0) return;
  ChunkTable& table = x_.table;
  if (!round_open_ &&
      now - round_at_ >= x_.RetryAfter(x_.PatienceOf(x_.round_trip), rounds_, kNoChunk)) {
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
      if (chunk.state != ChunkState::kRecovering || chunk.freezing) continue;
      Answered(index, x_.config.node);  // promotes it if there is nobody to ask
      if (chunk.state != ChunkState::kRecovering) continue;
      EncodeChunkNumber({index, chunk.number},
                        x_.outbox.payload(slot) + kChunkNumberBytes * entries++);
    }
    if (entries > 0) {
      FrameHeader header = x_.Header(FrameType::kClaim, kAllNodes);
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

Drop Recovery::OnClaim(const FrameView& frame) {
  return x_.ForEachEntry(frame, [&](const ChunkNumber& entry, const Chunk& chunk) {
    if (chunk.owner != frame.header.source) return Drop::kNotMaster;
    if (chunk.freezing) return Drop::kNone;  // it will ask again
    x_.table.Owe(entry.chunk,
                 chunk.number > entry.number ? &Chunk::owes_return : &Chunk::owes_pledge);
    return Drop::kNone;
  });
}

Drop Recovery::OnPledge(const FrameView& frame) {
  return x_.ForEachEntry(frame, [&](const ChunkNumber& entry, const Chunk& chunk) {
    if (chunk.state == ChunkState::kRecovering) Answered(entry.chunk, frame.header.source);
    return Drop::kNone;
  });
}

Drop Recovery::OnReturn(const FrameView& frame) {
  const FrameHeader& h = frame.header;
  if (const Drop drop = x_.CheckPosition(h); drop != Drop::kNone) return drop;
  Chunk& chunk = x_.table.chunks[h.chunk];
  if (chunk.state != ChunkState::kRecovering) return Drop::kOld;
  if (x_.IsBeingRead(h.chunk)) return Drop::kBeingRead;
  if (h.number <= chunk.number) {
    Answered(h.chunk, h.source);
    return Drop::kOld;
  }
  ChunkOp& op = x_.AddOp(&chunk, OpContext::Purpose::kReturn, frame).op;
  op.kind = chunk.number == 0 ? ChunkOpKind::kAdopt : ChunkOpKind::kExchange;
  op.acknowledged = x_.Acknowledged(chunk, frame.acks);
  return Drop::kNone;
}

void Recovery::Finish(const ChunkOp& op, const OpContext& context) {
  if (op.result & kRefused) {
    // No answer: what it would say is not known.
    x_.Dropped(x_.WhyRefused(op.result), context.source);
    return;
  }
  x_.table.Took(op.chunk, context.number, context.acks);
  ++x_.stats.returns_taken;
  if (op.acknowledged) x_.table.Settle(op.chunk);
  Answered(op.chunk, context.source);
}

void Recovery::Answered(uint32_t index, uint16_t node) {
  const auto missing = waiting(index);
  SetBit(missing, node, false);
  if (std::all_of(missing.begin(), missing.end(), [](uint64_t word) { return word == 0; })) {
    Promote(index);
  }
}

// What was pending is in the weights already, and goes out with the next position.
void Recovery::Promote(uint32_t index) {
  ChunkTable& table = x_.table;
  Chunk& chunk = table.chunks[index];
  if (chunk.pending) table.Settle(index);
  if (chunk.number == 0) --table.missing;
  chunk.handed_over = false;
  chunk.state = ChunkState::kMaster;
  chunk.dirty = true;
  chunk.retries = 0;
  table.SetAck(index, x_.config.node, ExchangeContext::Parity(chunk.seq));
  --recovering_;
  ++x_.stats.takeovers;
}

}  // namespace millrace
