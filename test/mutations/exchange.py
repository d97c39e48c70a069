"""The planted bugs: name, and edits of (file, exact old text, new text).

An old text must occur exactly once in its file, whatever the line breaks, so that the table cannot
rot. A bug
belongs here if a protocol that has it is wrong; edits that change nothing that
anybody could observe are listed at the end with the reason.
"""

EXCHANGE, WORKER, MASTER = (f"src/exchange/protocol/{name}.cc" for name in ("exchange", "worker", "master"))
TAKEOVER, MEMBERSHIP = "src/exchange/protocol/takeover.cc", "src/exchange/protocol/membership.cc"
PROPOSE = "src/exchange/protocol/membership_propose.cc"
FRAME, VIEW = "src/exchange/protocol/frame.cc", "src/exchange/protocol/view.cc"
REPLIES, TABLE = "src/exchange/protocol/reply_queue.cc", "src/exchange/protocol/chunk_table.cc"
LINKS = "src/exchange/protocol/link_monitor.cc"
RTT = "src/exchange/protocol/rtt_estimator.h"
CONTEXT, OUTBOX = "src/exchange/protocol/exchange_context.h", "src/exchange/protocol/outbox.cc"
DAMPING = "src/exchange/protocol/damping.h"
PRIORITY = "src/exchange/protocol/send_priority.h"
CONTEXT_CC, CYCLE = "src/exchange/protocol/exchange_context.cc", "src/exchange/protocol/diff_cycle.h"
RULE, EXECUTOR = "src/exchange/kernels/rules/additive_rule.h", "src/exchange/kernels/host_rule_executor.h"
KERNEL, RULES = "src/exchange/kernels/kernel_body.h", "src/exchange/kernels/rules/merge_rule_registry.cc"
SPANS = "src/exchange/kernels/span_loops-inl.h"
OUTER, CHOICE = "src/exchange/kernels/rules/outer_rule.h", "src/exchange/kernels/sparse_choice.cc"
HOST_TYPES = "src/exchange/kernels/host_types.h"
OP_LOCK, RANGE_LOCK = "src/exchange/kernels/op_lock.h", "src/base/threads/range_lock.cc"

MUTANTS = [
    # ---- Positions that are rounded, and when they are sent -----------------
    ("rounds-positions-after-flush", [("src/exchange/protocol/master.h", """\
  Codec codec() const { return exact_ ? Codec::kFloat32 : x_.config.position_codec; }
""", """\
  Codec codec() const { return x_.config.position_codec; }
""")]),
    ("one-int8-scale-for-mixed-weights", [("src/exchange/kernels/host_payload.cc", """\
    if (lost > kMaxLostByChance && 2 * lost > present) return true;
""", """\
    if (lost > present) return true;
""")]),
    ("leaves-rounded-weights-at-the-end", [(MASTER, """\
  for (Chunk& chunk : x_.table.chunks) chunk.dirty |= chunk.state == ChunkState::kMaster;
""", "")]),
    ("decodes-all-positions-of-a-batch-in-one-place", [(CONTEXT_CC, """\
  const size_t place = batch.size();
""", """\
  const size_t place = 0;
""")]),
    ("takes-rounded-states-over", [(TAKEOVER, """\
  if (h.codec != Codec::kFloat32) return DropReason::kField;
""", "")]),
    ("reads-a-position-as-of-another-length", [(CONTEXT_CC, """\
                                  h.length != LeastPayloadBytes(h.codec, floats_of(h.chunk)))) {
""", """\
                                  h.length < LeastPayloadBytes(h.codec, floats_of(h.chunk)))) {
""")]),
    ("joining-nodes-send-diffs", [(WORKER, """\
x_.membership.role() != Role::kJoining &&
""", "")]),
    ("joining-nodes-train", [(EXCHANGE, """\
membership_.synced() && membership_.role() != Role::kJoining &&
""", """\
membership_.synced() &&
""")]),
    ("waits-for-no-diffs", [(MASTER, """\
cycles_[chunk.row].Waits(times.now, times.answer, times.usual, x_.clock) ||
""", "")]),
    ("waits-for-workers-that-have-no-progress", [(CYCLE, """\
    if (passed < static_cast<int64_t>(clock.members)) return false;
""", "")]),
    ("waits-for-workers-that-send-nothing", [(MASTER, """\
    active += end.merged > 0 && end.merged + DiffCycle::kLately > chunk.number;
""", """\
    active += member.node != x_.config.node;
""")]),
    ("waits-for-the-last-diff-for-ever", [(CYCLE, """\
    return now - begin_ < (has_half_ ? 2 * half_ns_ : first_half);
""", """\
    return has_half_ || now - begin_ < first_half;
""")]),
    ("withholds-a-position-for-the-idle-time", [(CYCLE, """\
      if (now - begin_ >= std::max(first_half, usual)) begin_ = now;
""", "")]),
    # ---- Merge rules --------------------------------------------------------
    ("state-outlives-its-master", [(EXECUTOR, """\
      std::fill_n(chunk.rule_state + k * chunk.state_stride, chunk.count, 0.0f);
""", "")]),
    ("kernels-keep-the-state-of-another-master", [(KERNEL, """\
        Reset(op, nullptr);
        return ClearState(op);
""", """\
        return Reset(op, nullptr);
""")]),
    ("parameters-do-not-reach-the-loops", [(RULES, """\
  const RuleParameters parameters = Check(config).WithDefaults(config.parameters);
""", """\
  const RuleParameters parameters = Check(config).WithDefaults({});
""")]),
    ("a-rule-over-spans-keeps-what-it-offered", [(SPANS, """\
        StoreFloats(d, diff, block->d + i);
""", "")]),
    ("the-last-block-of-a-sparse-diff-is-lost", [(SPANS, """\
  if (count > 0) merge();
""", "")]),
    ("present-elements-lose-their-state", [(SPANS, """\
    for (size_t k = 0; k < states; ++k) *state_at(k, i) = block->state[k * count + i];
""", "")]),
    ("a-round-of-diffs-never-ends", [(OUTER, """\
    state[1] = is_last ? T{} : count + 1.0f;
""", """\
    state[1] = count + 1.0f;
""")]),
    ("a-position-that-takes-nothing-decays", [(EXECUTOR, """\
      return FromBits<float>(largest) >= codec_.threshold;
""", """\
      return FromBits<float>(largest) >= 0;
""")]),
    ("all-ties-are-sent", [(CHOICE, """\
    ties -= is_tie;
""", "")]),
    ("kernels-choose-all-ties", [(KERNEL, """\
        left -= is_tie;
""", "")]),
    ("every-diff-sends-the-same-share", [(EXECUTOR, """\
    return ChoiceSeed(op.chunk, rounds_[op.chunk]++);
""", """\
    return ChoiceSeed(op.chunk, rounds_[op.chunk]);
""")]),
    # ---- Not all can be sent ------------------------------------------------
    ("throttled-position-before-its-answer", [(MASTER, """\
  if (chunk.unanswered > 0 && passed < times.answer) return true;
""", "")]),
    ("every-chunk-has-its-turn", [(MASTER, """\
         !priority_.IsTurn(chunk.row);
""", """\
         false;
""")]),
    ("throttled-for-ever", [(EXCHANGE, """\
  const bool throttled = asked_to_throttle_ && !flushed_ && all_synced;
""", """\
  const bool throttled = asked_to_throttle_ && all_synced;
""")]),
    ("throttled-while-a-member-joins", [(EXCHANGE, """\
  const bool all_synced = view.synced() == view.members.size();
""", """\
  const bool all_synced = true;
""")]),
    ("answers-in-any-order-are-losses", [(WORKER, """\
  const bool in_order = !x_.throttled;
""", """\
  const bool in_order = true;
""")]),
    ("control-frames-wait-for-weights", [(EXCHANGE, """\
    return std::min(room_beside(outbox_.control_posted()), free - std::min(free, keep));
""", """\
    return std::min(room_beside(outbox_.posted()), free - std::min(free, keep));
""")]),
    ("lost-diffs-wait-for-weights", [(EXCHANGE, """\
  worker_.Poll(now, budget(Outbox::Use::kDiff, (room.size() + 7) / 8));
""", """\
  worker_.Poll(now, budget(Outbox::Use::kDiff, 0));
""")]),
    ("flush-waits-for-answers", [(WORKER, """\
  chunk->sent_at = kLongAgo;
""", "")]),
    ("a-takeover-counts-as-a-slow-answer", [(RTT, """\
    if (!Measures(first)) return;
""", "")]),
    ("one-late-answer-is-remembered", [(RTT, """\
    if (now - round_at_ < std::min(estimator_.mean(), kMaxRoundNs)) return false;
""", """\
    if (now - round_at_ < estimator_.mean()) return false;
""")]),
    ("diffs-take-all-room", [(OUTBOX, """\
void Outbox::ShareEvenly(bool evenly) { reserved_diffs_ = evenly ? slots() / 4 : 0; }
""", """\
void Outbox::ShareEvenly(bool evenly) { reserved_diffs_ = evenly ? 0 : 0; }
""")]),
    ("seldom-chunks-never", [(PRIORITY, """\
    return std::clamp(std::sqrt(row.rate / largest_), 1 / kMaxRounds, 1.0f);
""", """\
    return std::clamp(std::sqrt(row.rate / largest_), 0.0f, 1.0f);
""")]),
    ("progress-does-not-count", [(MASTER, """\
  priority_.Merged(chunk.row,
""", """\
  priority_.Merged(0 * chunk.row,
""")]),
    # ---- Exactly once -------------------------------------------------------
    ("ack-without-merge", [(MASTER, """\
    x_.Dropped(x_.WhyRefused(op.result), context.source);
    return;
""", """\
    x_.Dropped(x_.WhyRefused(op.result), context.source);
""")]),
    ("ack-on-arrival-merge-dropped", [(MASTER, """\
  if (h.seq != end.applied + 1) return DropReason::kOld;
""", """\
  if (h.seq != end.applied + 1) return DropReason::kOld;
  x_.table.SetAck(h.chunk, h.source, ExchangeContext::Parity(h.seq));
  if (x_.batch.Holds(chunk)) {
    end.applied = h.seq;
    return DropReason::kNone;
  }
""")]),
    # ---- Frames that are read from the weights when they leave --------------
    ("merges-while-being-read", [(CONTEXT, """\
    return config.direct && outbox.Holds(table.chunks[index].slot, index);
""", """\
    (void)index;
    return false;
""")]),
    ("takes-positions-while-being-read", [(WORKER, """\
  if (x_.IsBeingRead(h.chunk)) return DropReason::kBeingRead;
""", "")]),
    ("answers-takeover-requests-while-being-read", [(TAKEOVER, """\
    if (chunk.demoting) return DropReason::kNone;  // the new master will ask again
""", "")]),
    ("demotes-while-being-read", [(TAKEOVER, """\
    if (chunk.demoting && x_.IsBeingRead(index)) return false;
""", "")]),
    ("forgets-what-waits-when-it-begins-anew", [(TABLE, """\
    chunk.slot = slot;
""", "")]),
    ("deferred-diff-kept-in-the-next-view", [(EXCHANGE, """\
  master_.DropDeferred();
""", "")]),
    ("deferred-diff-not-asked-for-again", [(MASTER, """\
    End(chunk, diff.header.source).applied = diff.header.seq - 1;
    return false;
""", """\
    (void)chunk;
    return false;
""")]),
    ("sleeps-on-deferred-diffs", [(EXCHANGE, """\
  if (outbox_.posted() > 0 || master_.HasDeferredToMerge()) return now;
""", """\
  if (outbox_.posted() > 0) return now;
""")]),
    ("joins-with-unsettled-positions", [(WORKER, """\
  if (chunk.number == 0 && h.unsettled) return DropReason::kOld;
""", "")]),
    ("members-take-no-unsettled-positions", [(WORKER, """\
  if (chunk.number == 0 && h.unsettled) return DropReason::kOld;
""", """\
  if (h.unsettled) return DropReason::kOld;
""")]),
    ("positions-are-always-settled", [(MASTER, """\
    header.unsettled = !x_.table.IsSettled(next.chunk);
""", "")]),
    ("a-master-merges-nothing-of-its-own", [(MASTER, """\
    const bool merges = x_.config.merges_own && next.has_own;
""", """\
    const bool merges = false;
""")]),
    ("what-an-only-member-does-is-averaged", [(MASTER, """\
  if (x_.config.merges_own && members_.size() < 2 && members.size() > 1) CountOwnInFull();
""", "")]),
    ("a-master-that-gives-up-merges-its-own-in-full", [(TAKEOVER, """\
    op.kind = x_.config.merges_own ? ChunkOpKind::kTakeBack : ChunkOpKind::kDemote;
""", """\
    op.kind = ChunkOpKind::kDemote;
""")]),
    ("a-merge-settles-nothing", [(MASTER, """\
  SetBit(x_.table.unsettled(op.chunk), context.source, false);
""", "")]),
    ("the-gone-stay-unsettled", [(TABLE, """\
    unsettled_[i] &= keep[i % ack_words_];
""", "")]),
    ("every-pending-diff-is-unsettled", [(TAKEOVER, """\
    table.unsettled(index)[i] &= merged[i] ^ parities(index)[i];
""", "")]),
    ("states-say-nothing-of-pending-diffs", [(REPLIES, """\
  header.seq = x_.PendingMark(chunk);
""", "")]),
    ("answers-say-nothing-of-pending-diffs", [(REPLIES, """\
  EncodeChunkNumber({index, takeover ? x_.PendingMark(chunk) : chunk.number},
""", """\
  EncodeChunkNumber({index, takeover ? 0 : chunk.number},
""")]),
    ("the-mark-has-no-parity", [(CONTEXT, """\
    return chunk.pending ? 2 + Parity(chunk.seq) : 0;
""", """\
    return chunk.pending ? 2 : 0;
""")]),
    ("takeover-state-is-no-merge", [(TAKEOVER, """\
  ++x_.stats.takeover_states_taken;
""", "")]),
    # ---- Broken links -------------------------------------------------------
    ("small-frames-pass-for-a-link", [(LINKS, """\
  if (!is_full_size) return false;
""", "")]),
    ("never-pads-heartbeats", [(EXCHANGE, """\
  return wanted - std::min(wanted, payload_bytes);
""", """\
  return 0 * wanted;
""")]),
    ("excludes-at-the-first-report", [(LINKS, """\
  if (now - broken_since_ >= peer_timeout_ns_ / kEvidencePerTimeout) Exclude();
""", """\
  Exclude();
""")]),
    ("excludes-the-lowest", [(LINKS, """\
        (vertex.degree == worst->degree && weight(vertex.role) >= weight(worst->role));
""", """\
        (vertex.degree == worst->degree && weight(vertex.role) > weight(worst->role));
""")]),
    ("excludes-the-last-synced", [(LINKS, """\
    if (vertex.role == Role::kSynced && synced == 1) continue;  // a node with the weights stays
""", "")]),
    ("coordinates-though-excluded", [(PROPOSE, """\
    if (may && Alive(member.node) && !links_.IsExcluded(member.node)) return member.node;
""", """\
    if (may && Alive(member.node)) return member.node;
""")]),
    ("lets-in-over-a-broken-link", [(PROPOSE, """\
    if (!IsLinked(node, *next)) continue;
""", "")]),
    ("follows-an-unconnected-coordinator", [(MEMBERSHIP, """\
  if (links_.Reports(source, config_.node) && intent_ != Intent::kJoin &&
""", """\
  if (false && links_.Reports(source, config_.node) && intent_ != Intent::kJoin &&
""")]),
    ("excluded-goes-its-own-way", [(MEMBERSHIP, """\
      !links_.IsExcluded(config_.node)) {
    return;
""", """\
      true) {
    return;
""")]),
    ("dropped-is-not-reported", [(LINKS, """\
    if (!view.Find(member.node) && timed_out) SetBit(Row(node_), member.node, true);
""", """\
    (void)timed_out;
""")]),
    ("heartbeat-in-every-leave", [(MEMBERSHIP, """\
  if (intent_ == Intent::kLeave) return;
""", "")]),
    ("bootstraps-before-it-is-allowed", [(MEMBERSHIP, """\
  if (!may_bootstrap_) return;
""", "")]),
    ("merge-without-ack", [(MASTER, """\
  x_.table.SetAck(op.chunk, context.source, ExchangeContext::Parity(context.seq));
""", "")]),
    ("pending-forgotten", [(WORKER, """\
  op.acknowledged = x_.Acknowledged(chunk, frame.acks);
""", """\
  op.acknowledged = chunk.pending;
""")]),
    ("ack-of-another-node", [(CONTEXT, """\
    return chunk.pending && TestBit(acks, config.node) == Parity(chunk.seq);
""", """\
    return chunk.pending && TestBit(acks, (config.node + 1) % 64) == Parity(chunk.seq);
""")]),
    ("same-seq-merged-again", [(MASTER, """\
  if (h.seq != end.applied + 1) return DropReason::kOld;
""", """\
  if (h.seq != end.applied + 1 && h.seq != end.applied) return DropReason::kOld;
""")]),
    ("any-seq-merged", [(MASTER, """\
  if (h.seq != end.applied + 1) return DropReason::kOld;
""", "")]),
    ("first-seq-taken-as-new", [(MASTER, """\
    end.applied = h.seq - (x_.table.ack(h.chunk, h.source) != ExchangeContext::Parity(h.seq));
""", """\
    end.applied = h.seq - 1;
""")]),
    ("first-seq-taken-as-old", [(MASTER, """\
    end.applied = h.seq - (x_.table.ack(h.chunk, h.source) != ExchangeContext::Parity(h.seq));
""", """\
    end.applied = h.seq;
""")]),
    ("old-position-accepted", [(WORKER, """\
  if (h.number <= chunk.number) {
""", """\
  if (h.number == chunk.number) {
""")]),
    ("diff-taken-while-one-is-pending", [(WORKER, """\
  if (!settled || !MaySend() || x_.outbox.Room(Outbox::Use::kDiff) == 0) {
""", """\
  if (!MaySend() || x_.outbox.Room(Outbox::Use::kDiff) == 0) {
""")]),
    ("resent-under-a-new-seq", [(WORKER, """\
  chunk.sent_at = now;
  x_.Count(&chunk.retries);
""", """\
  chunk.sent_at = now;
  ++chunk.seq;
  x_.Count(&chunk.retries);
""")]),
    ("resent-anew-under-the-old-seq", [(WORKER, """\
  op.kind = ChunkOpKind::kEncodePending;
""", """\
  op.kind = ChunkOpKind::kTake;
""")]),
    ("never-resent", [(WORKER, """\
  budget -= Resend(now, budget);
""", "")]),
    ("all-are-probed-in-a-timeout", [(RTT, """\
    if (probes_ == 0) return false;
    --probes_;
""", "")]),
    ("overtaken-is-not-lost", [(WORKER, """\
  if (in_order && overtaken >= x_.RetryAfter(window, chunk.retries, index)) return true;
""", "")]),
    ("two-positions-of-a-chunk-in-a-batch", [(EXCHANGE, """\
      h.type != FrameType::kDiff) {
    RunBatch(now);
""", """\
      h.type != FrameType::kDiff) {
""")]),

    # ---- Weights ------------------------------------------------------------
    ("position-overwrites", [(WORKER, """\
  op.kind = ChunkOpKind::kExchange;
""", """\
  op.kind = ChunkOpKind::kLoad;
""")]),
    ("residual-dropped", [(RULE, "    return u - d;\n", "    return d - d;\n")]),
    ("base-takes-all-of-the-progress", [(RULE, "    return u - d;\n", "    return u;\n")]),
    ("merge-overwrites", [(RULE, "    return w + d;\n", "    return d + (w - w);\n")]),
    ("non-finite-position-taken", [(EXECUTOR, """\
    if (result != 0) Refuse(result, op);
    return result == 0;
""", """\
    if (result == kMalformed) Refuse(result, op);
    return result != kMalformed;
""")]),
    ("non-finite-diff-sent", [("src/exchange/kernels/host_loops-inl.h", """\
  return Magnitude(selected) < overflow ? selected : Floats{};
""", """\
  return selected;
""")]),
    ("non-finite-diff-merged", [(EXECUTOR, """\
    ops[0].result = CheckPayload(codec, ops[0].in, bytes, count, simd_);
""", """\
    ops[0].result = CheckPayload(codec, ops[0].in, bytes, count, simd_) & kMalformed;
""")]),
    ("non-finite-diff-merged-behind-another", [(EXECUTOR, """\
      if (!alike || !finite || !lock_.Admits(ops.subspan(i + 1))) return i + 1;
""", """\
      if (!alike || (!finite && i < 0) || !lock_.Admits(ops.subspan(i + 1))) return i + 1;
""")]),
    ("refused-diff-is-never-merged", [(MASTER, """\
    End(chunk, context.source).applied = context.seq - 1;
""", "")]),

    # ---- Solvers that write the weights meanwhile ---------------------------
    ("writes-weights-without-their-range", [(OP_LOCK, """\
    return Holds(ops[0].chunk) || !WritesWeights(ops[0].kind) || LockFor(ops);
""", """\
    LockFor(ops);
    return true;
""")]),
    ("a-run-of-merges-leaves-its-range", [(EXECUTOR, """\
      if (!alike || !finite || !lock_.Admits(ops.subspan(i + 1))) return i + 1;
""", """\
      if (!alike || !finite) return i + 1;
""")]),
    ("range-of-several-chunks-ends-too-early", [(OP_LOCK, """\
    const int64_t count = std::min(end * arrays_.chunk_floats, arrays_.size) - first;
""", """\
    const int64_t count = std::min((begin + 1) * arrays_.chunk_floats, arrays_.size) - first;
""")]),
    ("range-is-held-after-the-batch", [(OP_LOCK, """\
    begin_ = end_ = 0;
    holder_->Unlock();
""", """\
    begin_ = end_ = 0;
""")]),
    ("an-exchange-does-not-look-for-solvers", [(RANGE_LOCK, """\
      if (std::all_of(own + 1, all.end(), left) && std::ranges::all_of(lock_.SharedSlots(), left)) {
""", """\
      if (std::all_of(own + 1, all.end(), left)) {
""")]),
    ("last-floats-of-a-range-are-not-in-it", [(RANGE_LOCK, """\
         static_cast<uint64_t>((end + kUnitFloats - 1) / kUnitFloats);
""", """\
         static_cast<uint64_t>(end / kUnitFloats);
""")]),
    ("a-dead-process-keeps-its-range", [(RANGE_LOCK, """\
  return range != 0 && !owner_alive && slot->range.compare_exchange_strong(range, 0);
""", """\
  return range != 0 && !owner_alive && range == 0;
""")]),

    # ---- Who may say what ---------------------------------------------------
    ("frames-of-other-views-accepted", [(MEMBERSHIP, """\
  if (header.view != view_.id) return false;
  peer.last_frame_at = now;
""", """\
  peer.last_frame_at = now;
""")]),
    ("asks-who-would-not-know-the-view", [(PROPOSE, """\
         next.DescendsFrom(peer.status.target);
""", """\
         (peer.status.target == view_.id || view_.DescendsFrom(peer.status.target));
""")]),
    ("waits-for-an-unresponsive-joiner", [(PROPOSE, """\
    if (peers_[node].unresponsive && !with_unresponsive) {
""", """\
    if (peers_[node].unresponsive && !with_unresponsive && node >= config_.max_nodes) {
""")]),
    ("learns-any-epoch", [("src/exchange/protocol/membership.h", """\
    if (epoch <= EpochAbove(kMaxEpochStep / 2)) max_epoch_ = std::max(max_epoch_, epoch);
""", """\
    max_epoch_ = std::max(max_epoch_, epoch);
""")]),
    ("heeds-a-view-of-any-epoch", [(MEMBERSHIP, """\
  if (!IsExpected(scratch_.id.epoch)) return false;
""", "")]),
    ("learns-any-incarnation", [(MEMBERSHIP, """\
  if (self->incarnation >= kLatestIncarnation) return;
""", "")]),
    ("huge-progress-is-not-bounded", [(PRIORITY, """\
    merged = magnitude < kMaxMagnitude ? std::min(merged + magnitude, kMaxMagnitude) : kMaxMagnitude;
""", """\
    merged += magnitude;
""")]),
    ("clocks-are-not-bounded", [(FRAME, """\
h.view.epoch > kMaxEpoch || h.clock > kMaxClock || h.number > kMaxPositionNumber;
""", """\
h.view.epoch > kMaxEpoch || h.number > kMaxPositionNumber;
""")]),
    ("keeps-a-proposal-that-asks-again", [(MEMBERSHIP, """\
  if (proposing_ && (!Recent(proposed_at_) || (asks_again_ && AnotherChangeIsDue()))) {
""", """\
  if (proposing_ && !Recent(proposed_at_)) {
""")]),
    ("asks-again-before-all-have-the-view", [(PROPOSE, """\
    if (complete || !MayAskAgain()) return;
""", """\
    if (complete) return;
""")]),
    ("forgets-the-promise-before", [(MEMBERSHIP, """\
  promised_before_ = before == promised_ || before == promised_before_ ? before : ViewId{};
""", """\
  promised_before_ = before == ViewId{1, 0, 0} ? before : ViewId{};
""")]),
    ("keeps-any-promise-before", [(MEMBERSHIP, """\
  promised_before_ = before == promised_ || before == promised_before_ ? before : ViewId{};
""", """\
  promised_before_ = before;
""")]),
    ("other-incarnation-counts", [(MEMBERSHIP, """\
    if (header.incarnation > member->incarnation) peer.replaced = true;
    return false;
""", """\
    if (header.incarnation > member->incarnation) peer.replaced = true;
""")]),
    ("earlier-incarnation-accepted", [(MEMBERSHIP, """\
  if (peer.known && frame.header.incarnation < peer.incarnation && remembered) return true;
""", "")]),
    ("acks-of-an-earlier-incarnation-kept", [(EXCHANGE, """\
  table_.KeepAcks(continuing);
""", "")]),
    ("ends-of-an-earlier-incarnation-kept", [(MASTER, """\
    if (was_member && TestBit(std::as_bytes(continuing), members[place])) {
""", """\
    if (was_member) {
""")]),
    ("keeps-ends-by-the-places-of-another-view", [(MASTER, """\
      places.emplace_back(place, before_place);
""", """\
      places.emplace_back(place, place);
""")]),
    ("goes-on-with-a-part-of-the-chunks", [(PROPOSE, """\
    const bool may = anybody_synced ? member.role == Role::kSynced : HasEveryChunk(member);
""", """\
    const bool may = anybody_synced ? member.role == Role::kSynced : true;
""")]),
    ("bootstraps-with-a-part-of-the-chunks", [(EXCHANGE, """\
    if (!view.id && has_some) membership_.ForbidBootstrap();
""", """\
    (void)has_some;
""")]),
    ("waits-for-the-dead-for-ever", [(MEMBERSHIP, """\
  if (now - coordinated_at_ >= kAbandonTimeouts * config_.peer_timeout_ns) return Abandon(now);
""", "")]),
    ("any-node-is-master", [(WORKER, """\
  if (chunk.owner != h.source || chunk.state != ChunkState::kWorker) return DropReason::kNotMaster;
""", "")]),
    ("diff-merged-while-recovering", [(MASTER, """\
  if (chunk.state != ChunkState::kMaster) return DropReason::kNotMaster;
""", """\
  if (chunk.state == ChunkState::kWorker) return DropReason::kNotMaster;
""")]),
    ("diff-merged-by-a-worker", [(MASTER, """\
  if (chunk.state != ChunkState::kMaster) return DropReason::kNotMaster;
""", """\
  if (chunk.state == ChunkState::kTakingOver) return DropReason::kNotMaster;
""")]),
    ("nodes-disagree-on-masters", [(EXCHANGE, """\
  AssignOwners(view, owners);
""", """\
  AssignOwners(followed_.members.empty() ? view : followed_, owners);
""")]),
    ("checksum-ignored", [(FRAME, """\
  if (Get<uint32_t>(p, kAtChecksum) != Checksum(checked, {})) return DropReason::kChecksum;
""", "")]),
    ("checksum-without-the-acks", [(FRAME, """\
  const uint32_t crc = Crc32c(head.first<kAtChecksum>(), head.subspan(kFrameHeaderBytes));
""", """\
  const size_t behind_acks = kFrameHeaderBytes + Get<uint16_t>(head.data(), kAtAckBytes);
  const uint32_t crc = Crc32c(head.first<kAtChecksum>(), head.subspan(behind_acks));
""")]),
    ("frames-of-another-run-accepted", [(EXCHANGE, """\
  if (h.run != config_.run) return DropReason::kRun;
""", "")]),
    ("own-frames-accepted", [(EXCHANGE, """\
  if (h.source == config_.node) return DropReason::kSelf;
""", "")]),
    ("frames-for-others-taken", [(EXCHANGE, """\
  if (h.destination != config_.node && h.destination != kAllNodes) return DropReason::kDestination;
""", "")]),

    # ---- A new master -------------------------------------------------------
    ("takeover-waits-for-one-ack", [(TAKEOVER, """\
  if (std::all_of(unsynced.begin(), unsynced.end(), [](uint64_t word) { return word == 0; })) {
""", """\
  if (node != x_.config.node ||
      std::all_of(unsynced.begin(), unsynced.end(), [](uint64_t word) { return word == 0; })) {
""")]),
    ("takeover-ignores-the-acks-of-the-state", [(TAKEOVER, """\
  x_.table.OnPosition(op.chunk, context.number, context.acks);
""", """\
  x_.table.OnPosition(op.chunk, context.number, x_.table.ack_bytes(op.chunk));
""")]),
    ("takeover-forgets-pending", [(TAKEOVER, """\
  op.acknowledged = x_.Acknowledged(chunk, frame.acks);
""", """\
  op.acknowledged = chunk.pending;
""")]),
    ("takeover-adds-pending-twice", [(TAKEOVER, """\
  op.acknowledged = x_.Acknowledged(chunk, frame.acks);
""", """\
  op.acknowledged = false;
""")]),
    ("own-ack-not-set-by-a-new-master", [(TAKEOVER, """\
  table.SetAck(index, x_.config.node, ExchangeContext::Parity(chunk.seq));
""", "")]),
    ("new-master-sends-no-position", [(TAKEOVER, """\
  chunk.state = ChunkState::kMaster;
  chunk.dirty = true;
""", """\
  chunk.state = ChunkState::kMaster;
""")]),
    ("takeover-state-includes-pending", [(REPLIES, """\
  op.kind = ChunkOpKind::kReturn;
""", """\
  op.kind = ChunkOpKind::kRead;
""")]),
    ("old-master-does-not-count-its-state", [(TAKEOVER, """\
  ++chunk.number;
  chunk.pending = chunk.dirty = false;
""", """\
  chunk.pending = chunk.dirty = false;
""")]),
    ("old-master-does-not-demote", [(TAKEOVER, """\
  if (!demotions_.empty()) x_.executor.Run(demotions_);
""", """\
""")]),
    ("worker-keeps-no-acks", [(WORKER, """\
  x_.table.OnPosition(index, context.number, context.acks);
""", """\
  x_.table.OnPosition(index, context.number, x_.table.ack_bytes(index));
""")]),
    ("schedules-replies-of-an-old-view", [(TAKEOVER, """\
  table.ClearReplies();
""", "")]),

    # ---- Views --------------------------------------------------------------
    ("batch-outlives-its-view", [(EXCHANGE, """\
    RunBatch(now);  // frames before this one belong to the view that may end here
""", "")]),
    ("joins-without-a-reset", [(EXCHANGE, """\
    table_.Reset();
    followed_.members.clear();
""", """\
    followed_.members.clear();
""")]),
    ("commits-without-all-accepts", [(MEMBERSHIP, """\
    if (member.node != config_.node && !peers_[member.node].accepted) return;
""", """\
    if (member.node != config_.node && !peers_[member.node].accepted &&
        proposal_.members.size() < 3) {
      return;
    }
""")]),
    ("drops-the-living", [(MEMBERSHIP, """\
    return after || leaving || !Alive(member.node) || links_.IsExcluded(member.node) ||
           links_.Reports(config_.node, member.node);
""", """\
    return true;
""")]),
    ("one-broken-link-stops-all", [(MEMBERSHIP, """\
    return after || leaving || !Alive(member.node) || links_.IsExcluded(member.node) ||
           links_.Reports(config_.node, member.node);
""", """\
    return leaving || !Alive(member.node);
""")]),
    ("small-frames-protect-the-coordinator", [(MEMBERSHIP, """\
 || links_.IsExcluded(member.node) ||
           links_.Reports(config_.node, member.node);
""", """\
 || links_.IsExcluded(member.node);
""")]),
    ("heartbeats-are-larger-than-full-size", [("src/exchange/protocol/exchange.cc", """\
  context_.full_payload = std::max(static_cast<size_t>(4 * context_.floats_of(0)),
                                   Membership::MaxPayloadBytes(MaxMembers(config)));
""", """\
  context_.full_payload = static_cast<size_t>(4 * context_.floats_of(0));
""")]),
    ("views-named-without-an-incarnation", [(MEMBERSHIP, """\
  proposal_.id = NextId();
  proposal_.ancestors.clear();
""", """\
  proposal_.id = NextId();
  proposal_.id.incarnation = 0;
  proposal_.ancestors.clear();
""")]),
    ("incarnation-not-learnt", [(MEMBERSHIP, """\
  LearnIncarnation();
  Consider""", """\
  Consider""")]),
    ("frozen-for-long-waits-for-ever", [(CONTEXT, """\
    return std::min(trip.Timeout(config.resend_ns), limit);
""", """\
    return trip.Timeout(config.resend_ns);
"""), (CONTEXT, """\
    return Spread(std::min(pause, most), config.node, what << 8 | retries);
""", """\
    return Spread(pause, config.node, what << 8 | retries);
""")]),
    ("corrupt-takeover-state-counts", [(TAKEOVER, """\
    // The executor refused the state: this node does not know the position, so it does not answer.
    x_.Dropped(x_.WhyRefused(op.result), context.source);
    return;
""", """\
    x_.Dropped(x_.WhyRefused(op.result), context.source);
    RecordReply(op.chunk, context.source, context.seq);
    return;
""")]),
    ("promise-broken", [(MEMBERSHIP, """\
  if (left_ || scratch_.id <= view_.id || scratch_.id < promised_) return true;
""", """\
  if (left_ || scratch_.id <= view_.id) return true;
""")]),
    ("proposal-of-another-predecessor", [(MEMBERSHIP, """\
  if (!view_.id || scratch_.predecessor() != view_.id ||
      !scratch_""", """\
  if (!view_.id || !scratch_""")]),
    ("frozen-node-takes-all-for-dead", [(MEMBERSHIP, """\
    for (Peer& peer : peers_) peer.last_frame_at += now - now_;
""", "")]),
    ("less-work-wins", [(MEMBERSHIP, """\
  if (clock != other.clock) return clock > other.clock;
""", """\
  if (clock != other.clock) return clock < other.clock;
""")]),
    ("two-precede-each-other", [(MEMBERSHIP, """\
  return id.coordinator < other.id.coordinator;
""", """\
  return true;
""")]),
    ("follows-whom-it-was-dropped-by-in-a-circle", [(MEMBERSHIP, """\
  const bool evicted = stays && scratch_.DescendsFrom(view_.id);
""", """\
  const bool evicted = scratch_.DescendsFrom(view_.id);
""")]),
    ("founds-beside-a-lower-node", [(MEMBERSHIP, """\
    if (peers_[node].known && Recent(peers_[node].heartbeat_at)) return;
""", "")]),
    ("leaves-undrained", [(PROPOSE, """\
  if (gone || (!self && member.role == Role::kLeaving && drained)) {
""", """\
  if (gone || (!self && member.role == Role::kLeaving)) {
""")]),
    ("drained-in-an-old-view", [(MEMBERSHIP, """\
  drained_ = false;
""", "")]),
    ("drained-before-the-hand-over", [(WORKER, """\
           !chunk.awaiting_master && !chunk.demoting;
""", """\
           !chunk.demoting;
""")]),
    ("leaves-with-a-rounded-diff", [(WORKER, """\
Codec Worker::codec() const { return exact_ ? Codec::kFloat32 : x_.config.codec.codec; }
""", """\
Codec Worker::codec() const { return x_.config.codec.codec; }
""")]),
    ("past-clock-lost", [(PROPOSE, """\
    next->past_clock = std::min(next->past_clock + clock, kMaxClock);
""", "")]),
    ("clock-of-an-earlier-incarnation-kept", [(MEMBERSHIP, """\
    peer.clock = std::max(same_incarnation ? peer.clock : 0, member.clock);
""", """\
    peer.clock = std::max(peer.clock, member.clock);
""")]),
    ("clock-goes-on-after-a-reset", [(EXCHANGE, """\
    clock_base_ = progress_;
""", "")]),

    # ---- Going on, and coming to rest ---------------------------------------
    ("last-position-not-repeated", [(MASTER, """\
    return member.node == x_.config.node || End(chunk, member.node).acked >= chunk.content;
""", """\
    return member.node == x_.config.node || End(chunk, member.node).acked + 1 >= chunk.content;
""")]),
    ("nothing-is-repeated", [(MASTER, """\
bool Master::AllAcked(const Chunk& chunk) {
""", """\
bool Master::AllAcked(const Chunk& chunk) {
  if (chunk.number > 0) return true;
""")]),
    ("never-all-acked", [(MASTER, """\
    if (!fresh && AllAcked(chunk)) {
""", """\
    if (false) {
""")]),
    ("worker-sleeps-on", [(EXCHANGE, """\
  worker_.Wake();
  master_.Wake();
""", """\
  master_.Wake();
""")]),
    ("master-sleeps-on", [(EXCHANGE, """\
  worker_.Wake();
  master_.Wake();
""", """\
  worker_.Wake();
""")]),
    ("merged-without-waking", [(MASTER, """\
  x_.metrics.MergedDiff(context.source);
  Wake();
""", """\
  x_.metrics.MergedDiff(context.source);
""")]),
    ("progress-not-looked-for-again", [(WORKER, """\
    chunk.swept = x_.table.version - 1;
    Wake();  // Push will look for progress
""", """\
    chunk.swept = x_.table.version;
    Wake();
""")]),
    ("nothing-sent-unasked", [(WORKER, """\
  Push(now, budget);
}
""", """\
}
""")]),
    ("sends-before-it-has-all", [(WORKER, """\
x_.membership.role() != Role::kJoining &&
         x_.table.unsynced == 0;
""", """\
x_.membership.role() != Role::kJoining;
""")]),
    ("a-chunk-waits-several-times", [(MASTER, """\
    if (x_.outbox.Holds(chunk.slot, index)) continue;
""", "")]),
    ("a-diff-waits-several-times", [(WORKER, """\
    if (now >= due && x_.outbox.Holds(chunk.slot, index)) continue;
""", "")]),
    ("positions-take-all-slots", [(OUTBOX, """\
      left_{slots / 2, slots * 5 / 8, slots},
      weights_left_(slots * 7 / 8),
""", """\
      left_{slots, slots, slots},
      weights_left_(slots),
""")]),
    ("no-brake-where-nobody-answers", [(MASTER, """\
    const bool repeats = !fresh || chunk.unanswered >= kMaxUnanswered;
""", """\
    const bool repeats = !fresh;
""")]),
    ("every-master-taken-for-as-quick", [(WORKER, """\
  const int64_t timeout = x_.RetransmitTimeout(master.round_trip, exact_), waited = now - chunk.sent_at;
""", """\
  const int64_t timeout = x_.RetransmitTimeout(x_.round_trip, exact_), waited = now - chunk.sent_at;
""")]),
    ("looks-once-for-progress-and-never-again", [(WORKER, """\
      look_at_ = longest_ago_ + x_.push_after();
""", """\
      look_at_ = INT64_MAX;
""")]),
    ("slots-run-out", [(WORKER, """\
  if (!settled || !MaySend() || x_.outbox.Room(Outbox::Use::kDiff) == 0) {
""", """\
  if (!settled || !MaySend()) {
""")]),
    # ---- Damping ------------------------------------------------------------
    ("stale-progress-is-added-in-full", [(WORKER, "  op->share = share;\n", "")]),
    ("damping-is-of-one-node-alone", [(DAMPING, """\
  const double least = (kStaleGain - 1) / static_cast<double>(members - 1);
""", """\
  const double least = kStaleGain - 1;
""")]),
    ("one-short-pause-makes-an-exchange-fresh", [(DAMPING, """\
    iterations_ = static_cast<float>(std::max(passed, kKept * iterations_));
""", """\
    iterations_ = static_cast<float>(passed);
""")]),
    ("unreported-iterations-count-as-none", [(DAMPING, """\
    return std::max<double>(IterationsBetween(cluster_, now.cluster),
                            IterationsBetween(own_, now.own) * static_cast<double>(now.members));
""", """\
    return IterationsBetween(cluster_, now.cluster);
""")]),
    ("a-clock-that-falls-has-run-around", [(DAMPING, """\
    return std::max(0, static_cast<int32_t>(static_cast<uint32_t>(now) - then));
""", """\
    return static_cast<uint32_t>(now) - then;
""")]),
    ("a-former-master-passes-for-stale", [(TAKEOVER, """\
    if (!x_.delays.empty()) x_.delays[index].Restart(x_.clock);
""", "")]),
    ("steps-that-are-not-merged-pass-for-fresh", [(EXCHANGE, """\
      std::max(context_.merged_iterations, iterations - std::min(iterations, unmerged));
""", """\
      std::max(context_.merged_iterations, iterations);
""")]),
    ("the-rest-is-added-before-its-solvers-have-merged", [(DAMPING, """\
    const double seen = now.on_copies ? IterationsBetween(own_, now.own) : passed;
""", """\
    const double seen = passed;
""")]),
    ("rules-change-what-damping-withholds", [(HOST_TYPES, """\
    if constexpr (!kChangesUnsent<Rule>) return Rule::Residual(u, d);
""", """\
    if (true) return Rule::Residual(u, d);
""")]),
    ("a-repeated-diff-passes-for-fresh", [(WORKER, """\
  header.number = chunk->number - chunk->pending_age;
""", """\
  header.number = chunk->number;
""")]),
    ("held-back-progress-is-added-without-training", [(DAMPING, """\
    if (seen == 0 && iterations_ > kAddedIterations) return 0;
""", "")]),
    ("the-rest-is-added-at-the-end", [(WORKER, """\
  op->drop_rest = exact_ && share < 1;
""", "")]),
    ("the-rest-is-dropped-while-nodes-train", [(WORKER, """\
  op->drop_rest = exact_ && share < 1;
""", """\
  op->drop_rest = op->codec == Codec::kFloat32 && share < 1;
""")]),
    ("the-last-share-is-that-of-the-last-take", [(DAMPING, """\
    iterations_ = std::max(static_cast<float>(PassedAt(now)), iterations_);
""", "")]),
    ("relays-drop-too", [(WORKER, """\
  return x_.config.passes_all_on ? 1 : delay.ShareAtEnd(x_.clock);
""", """\
  return delay.ShareAtEnd(x_.clock);
""")]),
]

# Not in the table, because nobody could tell:
# - a position with the number acked last (not below it) is taken again: it holds what
#   the first one held, and its acknowledgements;
# - an old position is not answered by kPositionAck: what the master repeats has a new number,
#   and that is answered;
# - a frame of another incarnation, in this view, is taken: a view names one incarnation
#   of each node, so there is none. What comes in other views is told apart (above).
# - of two views that it could join, a node prefers one whose members will not stay:
#   heartbeats come at changing intervals, so the next one corrects it.
# - a solver looks for an exchange in its range before it says that it is there: threads have to
#   meet within nanoseconds, which tests do not bring about (build/bench/lost_updates counts it).
