#include "exchange/protocol/exchange.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads/cache_line.h"
#include "exchange/kernels/codec_config.h"
#include "exchange/protocol/ownership.h"

namespace millrace::inline exchange {
namespace {

// Maximum batches in flight on an asynchronous executor.
constexpr size_t kBatchesAhead = 4;
constexpr uint32_t kMinSlots = 8;
constexpr size_t kRowsAhead = 4;
// Bytes of the next frame to prefetch. The hardware prefetcher fetches the rest ahead of the
// checksum.
constexpr size_t kBytesAhead = 2048;
// Share of a link of known rate that the heartbeats to all members take at most, and once more
// those of full size. Otherwise they would leave no room for weights on a slow link, and nodes
// could not join.
constexpr double kHeartbeatShare = 0.05;
// Minimum number of heartbeats in a peer timeout on a slow link.
constexpr int64_t kHeartbeatsPerTimeout = 8;
// Slots that takeovers and replies leave for membership messages.
constexpr size_t kSlotsForMembership = 2;

// Interval at which frames of `bytes` to `copies` nodes take kHeartbeatShare of the link; 0 if its
// rate is not known.
int64_t IntervalOnLink(const ExchangeConfig& config, size_t bytes, size_t copies) {
  if (config.bytes_per_second <= 0) return 0;
  const double seconds =
      static_cast<double>(bytes * copies) / (kHeartbeatShare * config.bytes_per_second);
  return static_cast<int64_t>(1e9 * std::min(seconds, 1e9));
}

int64_t HeartbeatInterval(const ExchangeConfig& config) {
  const size_t bytes = kFrameHeaderBytes + 8 * AckWords(config.max_nodes) +
                       Membership::MaxPayloadBytes(MaxMembers(config));
  const int64_t interval = IntervalOnLink(config, bytes, MaxMembers(config) - 1U);
  const int64_t longest = config.peer_timeout_ns / kHeartbeatsPerTimeout;
  return std::max(config.heartbeat_ns, std::min(interval, longest));
}

MembershipConfig MembershipPart(const ExchangeConfig& config) {
  return {config.node,
          config.max_nodes,
          config.incarnation,
          HeartbeatInterval(config),
          config.peer_timeout_ns,
          config.bootstrap_after_ns,
          config.sole_bootstrapper,
          config.bootstraps_when_allowed,
          MaxMembers(config),
          config.examples};
}

const ExchangeConfig& Checked(const ExchangeConfig& config) {
  if (config.max_nodes > kMaxNodes) {
    throw Error("exchange: max_nodes is ", config.max_nodes, ", expected at most ", kMaxNodes);
  }
  if (config.node >= config.max_nodes) {
    throw Error("exchange: node is ", config.node, ", expected less than max_nodes, ",
                config.max_nodes);
  }
  if (config.max_members > config.max_nodes) {
    throw Error("exchange: max_members is ", config.max_members, ", expected at most max_nodes, ",
                config.max_nodes);
  }
  if (config.slots < kMinSlots) {
    throw Error("exchange: slots is ", config.slots, ", expected at least ", kMinSlots);
  }
  if (HasThreshold(config.codec) && !(config.codec.threshold > 0)) {
    throw Error("exchange: threshold is ", config.codec.threshold,
                ", expected more than 0 for the sparse codec");
  }
  if (HasShare(config.codec) && !IsShare(config.codec.share)) {
    throw Error("exchange: share is ", config.codec.share,
                ", expected more than 0 and at most 1 for the ", CodecName(config.codec), " codec");
  }
  if (config.position_codec == Codec::kSparse && !IsShare(config.position_share)) {
    throw Error("exchange: position_share is ", config.position_share,
                ", expected more than 0 and at most 1");
  }
  if (config.direct && config.position_codec != Codec::kFloat32) {
    throw Error("exchange: position_codec is ", PositionCodecName(config.position_codec),
                ", expected float32 where frames are sent from where they are");
  }
  if (config.direct && config.trailer_bytes > 0) {
    throw Error("exchange: trailer_bytes is ", config.trailer_bytes,
                ", expected 0 where frames are sent from where they are");
  }
  if (config.resend_ns <= 0) {
    throw Error("exchange: resend_ns is ", config.resend_ns, ", expected more than 0");
  }
  if (config.heartbeat_ns <= 0 || config.peer_timeout_ns < 3 * config.heartbeat_ns) {
    throw Error("exchange: peer_timeout_ns is ", config.peer_timeout_ns,
                ", expected at least three times heartbeat_ns, ", config.heartbeat_ns);
  }
  return config;
}

// Size of the largest payload, a chunk or a heartbeat, in bytes.
size_t PayloadRoom(const ExchangeConfig& config, const ReplicaArrays& arrays) {
  const size_t chunk = MaxPayloadBytes(arrays.floats_of(0));
  return std::max(chunk, Membership::MaxPayloadBytes(MaxMembers(config)));
}

// Prefetches a frame's bytes, which the kernel may have written on another core.
void FetchBytes(std::span<const std::byte> frame) {
  const size_t bytes = std::min(frame.size(), kBytesAhead);
  for (size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(&frame[at]);
}

}  // namespace

size_t MaxFrameBytes(const ExchangeConfig& config, const ReplicaArrays& arrays) {
  return kFrameHeaderBytes + 8 * AckWords(config.max_nodes) + PayloadRoom(config, arrays) +
         config.trailer_bytes;
}

Exchange::Exchange(const ExchangeConfig& config, ChunkExecutor* executor)
    : config_(Checked(config)),
      executor_(*executor),
      membership_(MembershipPart(config)),
      table_(executor->arrays().chunks(), config.max_nodes),
      outbox_(config.slots, 8 * AckWords(config.max_nodes), PayloadRoom(config, executor->arrays()),
              config.trailer_bytes, executor->payload_memory()),
      batch_(executor->batch_ops() * (executor->is_async() ? kBatchesAhead : 1)),
      metrics_(config.max_nodes, table_.size()),
      context_{config_,
               executor_,
               executor_.arrays(),
               membership_,
               table_,
               outbox_,
               batch_,
               stats_,
               metrics_,
               {},
               std::vector<MasterReplies>(config_.max_nodes),
               std::vector<TakeDelay>(config_.damping ? table_.size() : 0)},
      worker_(&context_),
      master_(&context_),
      takeover_(&context_),
      replies_(&context_) {
  followed_.Reserve(config.max_nodes);
  context_.full_payload = std::max(static_cast<size_t>(4 * context_.floats_of(0)),
                                   Membership::MaxPayloadBytes(MaxMembers(config)));
  if (config_.position_codec == Codec::kSparse) {
    context_.changes = std::make_unique<PositionChanges>(context_.arrays, config_.position_share);
  }
  context_.Reserve();
  if (config_.bytes_per_second > 0) {
    const auto bytes = static_cast<double>(table_.size() * context_.full_payload);
    context_.resend_pause = static_cast<int64_t>(4e9 * bytes / config_.bytes_per_second);
  }
  executor->RegisterMemory(outbox_.payloads());
}

int64_t Exchange::heartbeat_ns() const { return HeartbeatInterval(config_); }

void Exchange::SetProgress(uint64_t iterations, uint64_t unmerged) {
  const uint64_t merged =
      std::max(context_.merged_iterations, iterations - std::min(iterations, unmerged));
  if (iterations == progress_ && merged == context_.merged_iterations) return;
  progress_ = iterations;
  context_.merged_iterations = merged;
  context_.on_copies |= unmerged > 0;
  membership_.SetClock(iterations - clock_base_);
  WeightsChanged();
}

void Exchange::WeightsChanged() {
  ++table_.version;
  worker_.Wake();
  master_.Wake();
}

void Exchange::Flush() {
  if (context_.at_end) return;
  context_.AtEnd();
  worker_.Flush();
  worker_.RecheckAll();
  master_.Flush();
  FollowThrottle();
}

void Exchange::SetThrottled(bool throttled, int64_t spacing) {
  asked_to_throttle_ = throttled;
  context_.spacing = spacing;
  FollowThrottle();
}

// Throttling waits until all members are synced: a joining member needs every chunk once, however
// small its progress.
void Exchange::FollowThrottle() {
  const View& view = membership_.view();
  const bool all_synced = view.synced() == view.members.size();
  const bool throttled = asked_to_throttle_ && !context_.at_end && all_synced;
  if (throttled == context_.throttled) return;
  context_.throttled = throttled;
  outbox_.ShareEvenly(throttled);
}

// Flush makes a leaving node send its progress as float32, including what the codec held back.
void Exchange::Leave() {
  Flush();
  membership_.Leave();
}

bool Exchange::in_sync() const {
  return membership_.view().id && membership_.synced() && membership_.role() != Role::kJoining &&
         table_.unsynced == 0;
}

// ---- Receiving --------------------------------------------------------------

void Exchange::Receive(std::span<const std::span<const std::byte>> frames, int64_t now) {
  // Operations in flight belong to the current view, which must not change before they end.
  if (batch_.empty()) {
    membership_.Tick(now);
    FollowView();
  }
  context_.ReadClock();
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i + kRowsAhead < frames.size()) FetchRow(frames[i + kRowsAhead]);
    if (i + 1 < frames.size()) FetchBytes(frames[i + 1]);
    Handle(frames[i], now);
  }
  if (executor_.is_async()) {
    StartBatch();
  } else {
    RunBatch(now);
  }
  if (batch_.empty()) ReportToMembership();
}

// Prefetches the row of a frame's chunk: the rows of large models do not fit into the caches.
inline void Exchange::FetchRow(std::span<const std::byte> frame) const {
  if (frame.size() < kFrameHeaderBytes) return;
  const uint32_t chunk = FrameChunk(frame);
  if (chunk >= table_.size()) return;
  __builtin_prefetch(&table_.chunks[chunk]);
  __builtin_prefetch(&table_.chunks[chunk].batch);
}

inline void Exchange::Handle(std::span<const std::byte> bytes, int64_t now) {
  stats_.bytes_received += bytes.size();
  const DropReason invalid = DecodeFrame(bytes, &frame_);
  const FrameHeader& header = frame_.header;
  if (invalid != DropReason::kNone) {
    context_.Dropped(invalid);
  } else if (const DropReason foreign = CheckSource(header); foreign != DropReason::kNone) {
    context_.Dropped(foreign);
  } else {
    metrics_.Received(header.source, bytes.size());
    const DropReason drop = Dispatch(frame_, now);
    if (drop != DropReason::kNone) {
      context_.Dropped(drop, header.source);
    } else {
      ++stats_.received[static_cast<size_t>(header.type)];
    }
  }
  if (batch_.Full()) RunBatch(now);
}

// Returns why a frame is not from a peer to this node; kNone if it is.
inline DropReason Exchange::CheckSource(const FrameHeader& h) const {
  if (h.run != config_.run) return DropReason::kRun;
  if (h.source == config_.node) return DropReason::kSelf;
  if (h.destination != config_.node && h.destination != kAllNodes) return DropReason::kDestination;
  return h.source < config_.max_nodes ? DropReason::kNone : DropReason::kStranger;
}

inline DropReason Exchange::Dispatch(const FrameView& frame, int64_t now) {
  const FrameHeader& h = frame.header;
  const bool is_full_size =
      frame.acks.size() + frame.payload.size() >= context_.ack_bytes() + context_.full_payload;
  const bool from_member = membership_.OnFrame(h, is_full_size, now);
  if (h.type >= FrameType::kHeartbeat) {
    RunBatch(now);  // frames before this one belong to the view that may end here
    const bool understood = membership_.Receive(frame, now);
    FollowView();
    if (config_.merges_own && h.type == FrameType::kHeartbeat) master_.UpdateShares();
    return understood ? DropReason::kNone : DropReason::kPayload;
  }
  if (!from_member)
    return h.view == membership_.view().id ? DropReason::kStranger : DropReason::kView;
  if (h.chunk < table_.size() && batch_.Holds(table_.chunks[h.chunk]) &&
      h.type != FrameType::kDiff) {
    RunBatch(now);
  }
  switch (h.type) {
    case FrameType::kPosition:
      return worker_.OnPosition(frame);
    case FrameType::kDiff:
      return master_.OnDiff(frame);
    case FrameType::kPositionAck:
      return master_.OnPositionAck(frame);
    case FrameType::kTakeoverRequest:
      return takeover_.OnTakeoverRequest(frame);
    case FrameType::kTakeoverAck:
      return takeover_.OnTakeoverAck(frame);
    case FrameType::kTakeoverState:
      return takeover_.OnTakeoverState(frame);
    default:
      return DropReason::kField;
  }
}

void Exchange::StartBatch() {
  const std::span<ChunkOp> fresh = batch_.TakeFresh();
  if (!fresh.empty()) executor_.Start(fresh);
}

void Exchange::RunBatch(int64_t now) {
  const std::span<ChunkOp> ops = batch_.ops();
  if (ops.empty()) return;
  StartBatch();
  executor_.Finish();
  for (size_t i = 0; i < ops.size(); ++i) {
    const OpContext& context = batch_.context(i);
    switch (context.purpose) {
      case OpContext::Purpose::kPosition:
      case OpContext::Purpose::kPush:
        worker_.Finish(ops[i], context, now);
        break;
      case OpContext::Purpose::kDiff:
        master_.Finish(ops[i], context);
        break;
      case OpContext::Purpose::kTakeoverState:
        takeover_.Finish(ops[i], context);
        break;
    }
  }
  batch_.Clear();
}

// Runs before positions are made, so that the next position of a chunk contains the diffs that
// waited for the last one to leave.
void Exchange::MergeDeferred(int64_t now) {
  while (master_.AddDeferred()) RunBatch(now);
}

// ---- Views ------------------------------------------------------------------

// Adapts the tables to a change of view. REQUIRES: the batch is empty.
void Exchange::FollowView() {
  bool reset;
  if (!membership_.TakeChange(&reset)) return;
  master_.DropDeferred();
  const View& view = membership_.view();
  bootstrapped_ = !reset && (bootstrapped_ || !followed_.id);
  if (reset) {
    // The node left a view of which no member had every chunk. Its chunks stem from two runs.
    const bool has_some = table_.unsynced < table_.size();
    if (!view.id && has_some) membership_.ForbidBootstrap();
    table_.Reset();
    followed_.members.clear();
    clock_base_ = progress_;
    if (followed_.id) ++stats_.resets;
  }
  std::vector<uint64_t> continuing(table_.ack_words());
  for (const Member& member : view.members) {
    if (!followed_.Has(member.node, member.incarnation) && member.node != config_.node) continue;
    SetBit(continuing, member.node, true);
  }
  table_.KeepAcks(continuing);
  context_.ReadClock();  // the clocks of another view, and after a reset of another incarnation
  std::vector<uint16_t> owners(table_.size());
  AssignOwners(view, owners);
  const std::vector<uint32_t> before = table_.owned;
  takeover_.OnView(owners);
  master_.OnView(before, continuing);
  context_.ForgiveAll();
  if (membership_.role() == Role::kLeaving) worker_.RecheckAll();
  worker_.OnView();
  if (context_.at_end) worker_.Flush();  // the diffs under way were of the last view
  metrics_.BeginSweeps(&table_, reset);
  followed_ = view;
}

void Exchange::ReportToMembership() {
  if (table_.unsynced == 0 && membership_.role() == Role::kJoining) membership_.SetSynced();
  if (membership_.role() == Role::kLeaving && worker_.Drained()) membership_.SetDrained();
}

// ---- Sending ----------------------------------------------------------------

void Exchange::SendMembership(int64_t now, size_t budget) {
  MembershipMessage message;
  membership_.SetFullSizeSent(context_.full_size_sent);
  for (; budget > 0; --budget) {
    const uint32_t slot = outbox_.Take(Outbox::Use::kRest);
    if (!membership_.Poll(now, &message, outbox_.payload(slot))) return outbox_.Release(slot);
    FrameHeader header = context_.Header(message.type, message.destination);
    header.ack_bytes = static_cast<uint16_t>(message.report.size());
    header.length = message.payload_bytes;
    if (message.type == FrameType::kHeartbeat) {
      header.number = PaddingOf(message.payload_bytes, now);
      header.seq = config_.examples;
      header.length += static_cast<uint32_t>(header.number);
      std::fill_n(outbox_.payload(slot) + message.payload_bytes, header.number, std::byte{0});
    }
    context_.Post(slot, header, message.report, {outbox_.payload(slot), header.length});
  }
}

// Returns the number of zeros that pad a heartbeat to full size; 0 if a full-size frame went to all
// nodes recently. Padding exposes links that carry small frames only.
uint32_t Exchange::PaddingOf(uint32_t payload_bytes, int64_t now) {
  const size_t members = membership_.view().members.size();
  const size_t copies = (members > 0 ? members : MaxMembers(config_)) - 1;
  const int64_t pause =
      std::max(config_.peer_timeout_ns / (context_.throttled ? LinkMonitor::kFullSizeIfThrottled
                                                             : LinkMonitor::kFullSizePerTimeout),
               IntervalOnLink(config_, context_.full_payload, copies));
  if (now - context_.full_size_sent_at < pause) return 0;
  context_.SentFullSize(now);
  const auto wanted = static_cast<uint32_t>(context_.full_payload);
  return wanted - std::min(wanted, payload_bytes);
}

size_t Exchange::Send(std::span<PostedFrame> room, int64_t now) {
  RunBatch(now);
  membership_.Tick(now);
  FollowView();
  MergeDeferred(now);
  ReportToMembership();
  context_.ReadClock();
  FollowThrottle();
  // Control frames do not wait for positions and diffs. Otherwise a permanent backlog of these
  // would block takeovers, acknowledgements and retransmissions.
  const auto room_beside = [&](size_t posted) {
    return room.size() - std::min(room.size(), posted);
  };
  const auto control_budget = [&](size_t keep) {
    const size_t free = outbox_.Room(Outbox::Use::kRest);
    return std::min(room_beside(outbox_.control_posted()), free - std::min(free, keep));
  };
  // `least`: frames allowed even if the posted frames already fill `room`.
  const auto budget = [&](Outbox::Use use, size_t least) {
    return std::min(std::max(room_beside(outbox_.posted()), least), outbox_.Room(use));
  };
  SendMembership(now, control_budget(0));
  takeover_.Poll(now, control_budget(kSlotsForMembership));
  replies_.Poll(control_budget(kSlotsForMembership));
  worker_.Poll(now, budget(Outbox::Use::kDiff, (room.size() + 7) / 8));
  RunBatch(now);
  // A permanent backlog of diffs must not leave positions without room.
  master_.Poll(now, budget(Outbox::Use::kPosition, context_.throttled ? room.size() / 2 : 0));
  return outbox_.Drain(room);
}

bool Exchange::quiescent() const {
  return in_sync() && !table_.has_replies() && table_.pending.front() == kNoChunk &&
         takeover_.idle() && worker_.idle() && master_.idle() && outbox_.posted() == 0;
}

bool Exchange::alone() const {
  return in_sync() && view().members.size() == 1 && takeover_.idle() && !table_.has_replies() &&
         outbox_.posted() == 0 && !master_.HasDeferredToMerge();
}

int64_t Exchange::NextEvent(int64_t now) const {
  if (outbox_.posted() > 0 || master_.HasDeferredToMerge()) return now;
  if (quiescent() || alone()) return membership_.NextEvent();
  if (table_.has_replies()) return now;
  return std::min(membership_.NextEvent(),
                  now + std::min(config_.push_after_ns, config_.resend_ns) / 4);
}

}  // namespace millrace::inline exchange
