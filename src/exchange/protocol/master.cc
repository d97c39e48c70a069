#include "exchange/protocol/master.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "exchange/kernels/host_payload.h"

namespace millrace::inline exchange {
namespace {

// Positions of a chunk without any acknowledgement after which it is sent at the pace of
// retransmissions only: no member receives them.
constexpr uint8_t kMaxUnanswered = 8;
// Maximum chunks checked in one Poll while throttled, when most of them wait for a reply or for
// their turn.
constexpr uint32_t kScan = 1024;
constexpr int kMaxExamplesRatio = 16;  // see UpdateShares
// Times that a change is sent again to members that lack it. Then a position in full is sent.
constexpr uint8_t kMaxChangeRepeats = 3;

}  // namespace

Master::Master(ExchangeContext* context)
    : x_(*context),
      places_(x_.config.max_nodes),
      deferred_(x_.config.direct ? x_.config.slots : 0, x_.outbox.payload_bytes(),
                x_.executor.payload_memory()) {
  if (x_.config.direct) x_.executor.RegisterMemory(deferred_.payloads());
  sending_.reserve(x_.config.slots);
  ops_.reserve(x_.config.slots);
}

void Master::OnView(const std::vector<uint32_t>& before, std::span<const uint64_t> continuing) {
  ChunkTable& table = x_.table;
  std::vector<uint16_t> members;
  for (const Member& member : x_.membership.view().members) members.push_back(member.node);
  // Places of the members that continue: the new one, and the one before.
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t place = 0; place < members.size(); ++place) {
    const uint16_t before_place = places_[members[place]];
    const bool was_member =
        before_place < members_.size() && members_[before_place] == members[place];
    if (was_member && TestBit(std::as_bytes(continuing), members[place])) {
      places.emplace_back(place, before_place);
    }
  }
  if (x_.config.merges_own && members_.size() < 2 && members.size() > 1) CountOwnInFull();
  std::vector<WorkerEnd> ends(table.owned.size() * members.size());
  size_t old_row = 0;
  for (uint32_t row = 0; row < table.owned.size(); ++row) {
    Chunk& chunk = table.chunks[table.owned[row]];
    while (old_row < before.size() && before[old_row] < table.owned[row]) ++old_row;
    const bool stays = old_row < before.size() && before[old_row] == table.owned[row] &&
                       chunk.state == ChunkState::kMaster;
    for (size_t i = 0; stays && i < places.size(); ++i) {
      const auto [place, old_place] = places[i];
      ends[row * members.size() + place] = ends_[old_row * members_.size() + old_place];
    }
    chunk.row = row;
    // New members get a position in full at once.
    const bool all_stay = stays && places.size() == members.size();
    if (!all_stay && x_.changes) x_.changes->Forget(table.owned[row]);
  }
  ends_ = std::move(ends);
  members_ = std::move(members);
  for (size_t place = 0; place < members_.size(); ++place) {
    places_[members_[place]] = static_cast<uint16_t>(place);
  }
  UpdateShares();
  priority_.Reset(table.owned.size());
  cycles_.assign(table.owned.size(), {});
  cursor_ = 0;
  Wake();
}

// In proportion to the examples of an iteration of each member, or all equal while these are
// unknown of a member. No member counts as less than 1 / kMaxExamplesRatio of the largest, so that
// a wrong number cannot exclude the others.
void Master::UpdateShares() {
  const Membership& membership = x_.membership;
  uint32_t least = UINT32_MAX, most = 0;
  for (const uint16_t node : members_) {
    least = std::min(least, membership.Examples(node));
    most = std::max(most, membership.Examples(node));
  }
  const float equal = 1 / static_cast<float>(std::max<size_t>(members_.size(), 1));
  shares_.assign(members_.size(), equal);
  if (least == most || least == 0) return;
  const auto weight = [&](uint16_t node) {
    return std::max<double>(membership.Examples(node),
                            static_cast<double>(most) / kMaxExamplesRatio);
  };
  double sum = 0;
  for (const uint16_t node : members_) sum += weight(node);
  for (size_t place = 0; place < members_.size(); ++place) {
    shares_[place] = static_cast<float>(weight(members_[place]) / sum);
  }
}

// Makes the progress of this node count in full: it was made while the node was the only member.
void Master::CountOwnInFull() {
  std::vector<ChunkOp> ops;
  for (const uint32_t index : x_.table.owned) {
    if (x_.table.chunks[index].state != ChunkState::kMaster) continue;
    ops.emplace_back().kind = ChunkOpKind::kDemote;
    ops.back().chunk = index;
  }
  x_.executor.Run(ops);
}

DropReason Master::OnDiff(const FrameView& frame) {
  const FrameHeader& h = frame.header;
  if (h.chunk >= x_.table.size()) return DropReason::kChunk;
  Chunk& chunk = x_.table.chunks[h.chunk];
  if (chunk.state != ChunkState::kMaster) return DropReason::kNotMaster;
  WorkerEnd& end = End(chunk, h.source);
  if (!end.known) {
    // The acknowledgement vector states whether the weights contain this diff or only the one
    // before.
    end.known = true;
    end.applied = h.seq - (x_.table.ack(h.chunk, h.source) != ExchangeContext::Parity(h.seq));
  }
  Saw(&chunk, &end, h.number);
  if (h.seq != end.applied + 1) return DropReason::kOld;
  if (!x_.IsBeingRead(h.chunk)) {
    if (!AddMerge(&chunk, frame)) return DropReason::kPayload;
  } else if (frame.payload.size() > x_.outbox.payload_bytes()) {
    return DropReason::kPayload;
  } else if (deferred_.full()) {
    return DropReason::kBeingRead;
  } else if (!x_.IsReadable(frame)) {
    return DropReason::kPayload;
  } else {
    deferred_.Add(frame);
  }
  end.applied = h.seq;
  return DropReason::kNone;
}

bool Master::AddMerge(Chunk* chunk, const FrameView& frame) {
  const FrameHeader& h = frame.header;
  const std::optional<OpBatch::Entry> entry = x_.AddDiff(chunk, frame);
  if (!entry) return false;
  ChunkOp& op = entry->op;
  op.kind = ChunkOpKind::kMerge;
  op.codec = h.codec;
  op.share = MergeShare(h.source);
  op.staleness = static_cast<uint32_t>(chunk->number - std::min(chunk->number, h.number));
  return true;
}

bool Master::HasDeferredToMerge() const {
  const auto waiting = deferred_.waiting();
  return std::any_of(waiting.begin(), waiting.end(),
                     [&](const FrameView& diff) { return !x_.IsBeingRead(diff.header.chunk); });
}

// The batch refers to removed payloads. They stay intact until the next diff is deferred, which
// happens only after the batch has been run.
bool Master::AddDeferred() {
  bool added = false;
  deferred_.RetainIf([&](const FrameView& diff) {
    if (x_.batch.Full() || x_.IsBeingRead(diff.header.chunk)) return true;
    AddMerge(&x_.table.chunks[diff.header.chunk], diff);
    added = true;
    return false;
  });
  return added;
}

void Master::DropDeferred() {
  deferred_.RetainIf([&](const FrameView& diff) {
    Chunk& chunk = x_.table.chunks[diff.header.chunk];
    End(chunk, diff.header.source).applied = diff.header.seq - 1;
    return false;
  });
}

void Master::Finish(const ChunkOp& op, const OpContext& context) {
  Chunk& chunk = x_.table.chunks[op.chunk];
  if (op.result & kRefused) {
    End(chunk, context.source).applied = context.seq - 1;
    x_.Dropped(x_.WhyRefused(op.result), context.source);
    return;
  }
  x_.table.SetAck(op.chunk, context.source, ExchangeContext::Parity(context.seq));
  SetBit(x_.table.unsettled(op.chunk), context.source, false);
  chunk.dirty = true;
  End(chunk, context.source).merged = chunk.number;
  cycles_[chunk.row].Merged();
  priority_.Merged(chunk.row,
                   SampledMagnitude(op.codec, {op.in, op.in_bytes}, x_.floats_of(op.chunk)));
  ++x_.stats.diffs_merged;
  x_.metrics.MergedDiff(context.source);
  Wake();
}

DropReason Master::OnPositionAck(const FrameView& frame) {
  return x_.ForEachEntry(frame, [&](const ChunkNumber& entry, Chunk& chunk) {
    if (chunk.state != ChunkState::kMaster) return DropReason::kNone;
    Saw(&chunk, &End(chunk, frame.header.source), entry.number);
    return DropReason::kNone;
  });
}

// Records that a worker has taken position `number`.
inline void Master::Saw(Chunk* chunk, WorkerEnd* end, uint64_t number) {
  if (number > chunk->number || number <= end->acked) return;
  end->acked = number;
  chunk->unanswered = 0;
}

bool Master::AllHave(const Chunk& chunk, uint64_t number) {
  const auto& members = x_.membership.view().members;
  return std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return member.node == x_.config.node || End(chunk, member.node).acked >= number;
  });
}

// Whether the last change is sent once more: members lack nothing but it.
bool Master::RepeatsChange(const Chunk& chunk, uint32_t index) {
  return x_.changes->sent_change(index) && chunk.retries < kMaxChangeRepeats &&
         AllHave(chunk, chunk.number - 1);
}

uint32_t Master::ActiveWorkers(const Chunk& chunk) {
  uint32_t active = 0;
  for (const Member& member : x_.membership.view().members) {
    const WorkerEnd& end = End(chunk, member.node);
    active += end.merged > 0 && end.merged + DiffCycle::kLately > chunk.number;
  }
  return active;
}

void Master::Flush() {
  if (x_.config.position_codec == Codec::kFloat32) return;
  for (Chunk& chunk : x_.table.chunks) chunk.dirty |= chunk.state == ChunkState::kMaster;
  Wake();
}

bool Master::IsHeldBack(const Chunk& chunk, uint32_t index, bool repeats, const WaitTimes& times) {
  const int64_t passed = times.now - chunk.sent_at;
  if (repeats && passed < x_.RetryAfter(times.timeout, chunk.retries, index)) return true;
  if (chunk.unanswered > 0 && passed < times.answer) return true;
  if (!x_.throttled) return false;
  DiffCycle& cycle = cycles_[chunk.row];
  if (!repeats && cycle.IsYoung(x_.spacing, x_.clock)) return true;
  return cycle.Waits(times.now, times.answer, times.usual, x_.clock) ||
         (x_.spacing == 0 && !priority_.IsTurn(chunk.row));
}

void Master::Poll(int64_t now, size_t budget) {
  ChunkTable& table = x_.table;
  if (x_.membership.view().members.size() < 2) return;
  const uint32_t count = static_cast<uint32_t>(table.owned.size());
  if (cursor_ >= count) cursor_ = 0;
  const WaitTimes times = {now, x_.RetransmitTimeout(x_.round_trip), x_.answer_wait(),
                           std::min(x_.round_trip.usual(), x_.config.peer_timeout_ns)};
  const uint32_t most = x_.throttled ? std::min(count, kScan) : count;
  for (uint32_t scanned = 0; scanned < most && !idle() && sending_.size() < budget; ++scanned) {
    const uint32_t index = table.owned[cursor_];
    if (++cursor_ == count) {
      cursor_ = 0;
      priority_.EndRound();
    }
    Chunk& chunk = table.chunks[index];
    if (chunk.state != ChunkState::kMaster) {
      clean_ = 0;  // being taken over
      continue;
    }
    const bool fresh = NeedsPosition(chunk);
    if (!fresh && AllHave(chunk, chunk.content)) {
      ++clean_;
      continue;
    }
    clean_ = 0;
    // The next position is made when the previous one has left, with the content of that time.
    if (x_.outbox.Holds(chunk.slot, index)) continue;
    // A change needs the last position, so it waits until all members have that. To go on without
    // one of them, a position in full would have to be sent.
    const bool changes = x_.changes && !x_.at_end && x_.changes->has_last(index);
    const bool waits = changes && !AllHave(chunk, chunk.number);
    const bool repeats_change = waits && RepeatsChange(chunk, index);
    const bool repeats = waits || !fresh || chunk.unanswered >= kMaxUnanswered;
    if (IsHeldBack(chunk, index, repeats, times)) continue;
    cycles_[chunk.row].Begin(x_.throttled ? ActiveWorkers(chunk) : 0, now, x_.clock);
    priority_.Sent(chunk.row, now - chunk.sent_at);
    sending_.push_back({.chunk = index,
                        .has_own = chunk.swept != table.version,
                        .is_change = changes && !waits,
                        .repeats_change = repeats_change});
    if (!repeats_change) ++chunk.number;
    if (fresh && !repeats_change) {
      chunk.content = chunk.number;
      chunk.swept = table.version;
      chunk.dirty = false;
    } else {
      ++x_.stats.repeats;
    }
    if (repeats) {
      x_.Count(&chunk.retries);
    } else {
      chunk.retries = 0;
    }
    x_.Count(&chunk.unanswered);
    chunk.sent_at = now;
    x_.metrics.SentPosition(&chunk);
  }
  SendPositions(now);
}

void Master::SendPositions(int64_t now) {
  MakeContents();
  const ReplicaArrays& arrays = x_.arrays;
  const float* const merged = x_.config.merges_own ? arrays.base : arrays.weights;
  for (const NextPosition& next : sending_) {
    x_.table.chunks[next.chunk].slot = next.slot;
    FrameHeader header = x_.Header(FrameType::kPosition, kAllNodes);
    header.ack_bytes = x_.ack_bytes();
    header.payload_unchecked = x_.config.direct;
    header.unsettled = !x_.table.IsSettled(next.chunk);
    header.chunk = next.chunk;
    header.number = x_.table.chunks[next.chunk].number;
    header.length = static_cast<uint32_t>(4 * arrays.floats_of(next.chunk));
    if (codec() != Codec::kFloat32) EncodePosition(next, &header);
    if (header.length >= x_.full_payload) x_.SentFullSize(now);
    const auto* const there =
        reinterpret_cast<const std::byte*>(merged + int64_t{next.chunk} * arrays.chunk_floats);
    const std::byte* payload = next.in_place ? there : x_.outbox.payload(next.slot);
    x_.Post(next.slot, header, x_.table.ack_bytes(next.chunk), {payload, header.length});
  }
  sending_.clear();
}

// Copies what is not sent in place, and merges this node's own progress before.
void Master::MakeContents() {
  for (NextPosition& next : sending_) {
    next.slot = x_.outbox.Take(Outbox::Use::kPosition);
    next.in_place = x_.config.direct;
    if (next.repeats_change) continue;
    const bool merges = x_.config.merges_own && next.has_own;
    if (next.in_place && !merges) continue;
    ChunkOp& op = ops_.emplace_back();
    op.kind = merges                 ? ChunkOpKind::kMergeOwn
              : x_.config.merges_own ? ChunkOpKind::kReturn
                                     : ChunkOpKind::kRead;
    op.chunk = next.chunk;
    op.share = MergeShare(x_.config.node);
    if (!next.in_place) x_.WriteTo(next.slot, &op);
  }
  if (ops_.empty()) return;
  x_.executor.Run(ops_);
  const auto is_busy = [](const ChunkOp& op) { return (op.result & kBusy) != 0; };
  x_.stats.own_merges += static_cast<uint64_t>(std::ranges::count_if(
      ops_, [&](const ChunkOp& op) { return op.kind == ChunkOpKind::kMergeOwn && !is_busy(op); }));
  if (std::any_of(ops_.begin(), ops_.end(), is_busy)) ReadWithoutOwn();
  ops_.clear();
}

// Copies the master's weights of the chunks where a solver kept kMergeOwn from being carried out.
// The next position merges the progress.
void Master::ReadWithoutOwn() {
  for (ChunkOp& op : ops_) {
    if (!(op.result & kBusy)) continue;
    const auto next = std::find_if(sending_.begin(), sending_.end(), [&](const NextPosition& each) {
      return each.chunk == op.chunk;
    });
    next->in_place = false;
    op.kind = ChunkOpKind::kReturn;
    x_.WriteTo(next->slot, &op);
    x_.executor.Run({&op, 1});
    x_.table.chunks[op.chunk].swept = x_.table.version - 1;
  }
  Wake();
}

void Master::EncodePosition(const NextPosition& next, FrameHeader* header) {
  std::byte* const payload = x_.outbox.payload(next.slot);
  if (next.repeats_change) return WriteChange(x_.changes->last_change(next.chunk), payload, header);
  exact_weights_.resize(x_.arrays.chunk_floats);
  std::memcpy(exact_weights_.data(), payload, header->length);
  if (next.is_change) {
    return WriteChange(x_.changes->Make(next.chunk, exact_weights_.data()), payload, header);
  }
  const int64_t count = x_.floats_of(header->chunk);
  const Encoded encoded = EncodeWeights(codec(), exact_weights_.data(), count, payload, x_.simd);
  header->codec = encoded.codec;
  header->length = encoded.bytes;
  if (!x_.changes) return;
  DecodeWeights(encoded.codec, payload, count, exact_weights_.data(), x_.simd);
  x_.changes->SetLast(next.chunk, exact_weights_.data());
}

void Master::WriteChange(std::span<const std::byte> change, std::byte* payload,
                         FrameHeader* header) {
  std::ranges::copy(change, payload);
  header->codec = Codec::kSparse;
  header->sparse_form = SparseForm::kShortGaps;
  header->length = static_cast<uint32_t>(change.size());
}

}  // namespace millrace::inline exchange
