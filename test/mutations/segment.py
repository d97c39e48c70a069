"""Bugs in how nodes come to believe each other and what a segment lets in and out, as exchange.py
has them.
"""

HANDSHAKE = "src/segment/handshake/handshake.cc"
REFUSED = "src/segment/handshake/handshake_refused.cc"
INTRO_FRAME, KEY = "src/segment/handshake/handshake_message.cc", "src/segment/auth/key_file.cc"
FILTER, AUTH, REPLAY = "src/segment/handshake/frame_filter.cc", "src/segment/auth/frame_auth.cc", "src/segment/auth/replay_window.h"
GOSSIP, STORE = "src/segment/gossip/gossip.cc", "src/segment/gossip/gossip_store.cc"
COALESCING, PACER = "src/segment/coalescing.cc", "src/segment/pacer.cc"
LINK_LOG, METRICS = "src/segment/link_log.cc", "src/segment/segment_metrics.cc"
MERGED, STALENESS = "src/segment/merged_reader.cc", "src/segment/staleness_watch.cc"
CLUSTER = "src/cluster/cluster.cc"
SEGMENT, DIVERGENCE = "src/segment/net_segment.cc", "src/segment/divergence_sampler.cc"

MUTANTS = [
    ("lets-two-segments-round-across-a-third", [("src/topology/topology.cc", """\
        reached.push_back(i);
""", """\
        if (reached.size() == 1) reached.push_back(i);
""")]),
    # ---- Merge rules and transports of a plan -------------------------------
    ("what-a-rule-leaves-stays-at-the-end", [("src/exchange/protocol/worker.cc", """\
  if (held_all && op.share == 1 && x_.config.rest_distance > 0) DropRest(op.chunk, chunk);
""", "")]),
    ("a-plan-forgets-its-merge-rule", [("src/cluster/start.cc", """\
  config.rule = plan.rule;
""", "")]),
    ("a-rule-that-leaves-progress-shares-weights", [("src/topology/topology.cc", """\
    CheckMergeRules(topology);
""", "")]),
    ("relays-scale-what-they-bring-by-default", [("src/topology/topology.cc", """\
                                                  !SharesWeights(*topology, segment), scales);
""", """\
                                                  SharesWeights(*topology, segment) || true, scales);
""")]),
    ("the-file-has-no-say-in-damping", [("src/topology/topology.cc", """\
    if (!segment.names_damping) segment.damping = chosen.damping;
""", """\
    segment.damping = chosen.damping;
""")]),
    ("a-rule-without-a-kernel-is-for-a-gpu", [("src/topology/read_segments.cc", """\
  CheckRuleMemory();
""", "")]),
    ("a-transport-within-a-machine-wants-a-key", [("src/topology/plan.cc", """\
  if (transport.reach == TransportReach::kMachine) return true;
""", "")]),
    ("clusters-share-a-group", [("src/topology/plan.cc", """\
  if (transport.has_group) options[kGroupOption] = StrCat(GroupOf(plan->exchange.run));
""", "")]),
    ("two-endpoints-in-one-place", [("src/topology/read_segments.cc", """\
  if (addressing.has_port) return CheckListener(node, field(last), place);
""", """\
  if (addressing.has_port) return;
""")]),
    # ---- Handshake and proofs -------------------------------------------
    ("a-recorded-handshake-is-believed", [(HANDSHAKE, """\
  } else if (!fresh) {
""", """\
  } else if (!fresh && in.echo == kNoNonce) {
""")]),
    ("a-challenge-proves-more-than-one-thing", [(HANDSHAKE, """\
  if (fresh) peer->challenge = DrawNonce(random_);
""", "")]),
    ("handshake-of-another-key-are-believed", [(HANDSHAKE, """\
  return SameTag(tag, bytes.last<kTagBytes>()) ? DropReason::kNone : DropReason::kBadTag;
""", """\
  return SameTag(tag, tag) ? DropReason::kNone : DropReason::kBadTag;
""")]),
    ("speaks-for-others", [(HANDSHAKE, """\
  if (from != in.source) return DropReason::kSourceMismatch;
""", "")]),
    ("an-earlier-start-replaces-a-later-one", [(HANDSHAKE, """\
  if (peer.known && in.incarnation <= peer.incarnation) {
""", """\
  if (peer.known && in.incarnation == peer.incarnation) {
""")]),
    ("nets-of-other-shapes-are-alike", [(HANDSHAKE, """\
  if (theirs.layout_digest != ours.layout_digest) {
""", """\
  if (theirs.layout_digest != ours.layout_digest && theirs.parameters != ours.parameters) {
""")]),
    ("is-done-before-the-peer-knows-it", [(HANDSHAKE, """\
  peer->confirmed = in.known == session_id_;
  peer->session_id = in.session_id;
""", """\
  peer->confirmed = true;
  peer->session_id = in.session_id;
""")]),
    ("answers-as-often-as-it-is-asked", [(HANDSHAKE, """\
    if (paid - now > (kAnswersAtOnce - 1) * config_.slow_ns) {
""", """\
    if (paid - now > (kAnswersAtOnce - 1) * config_.slow_ns && now < 0) {
""")]),
    ("the-first-peers-take-all-the-room", [(HANDSHAKE, """\
  if (!peers_.empty()) first_ = (first_ + turn) % peers_.size();
""", "")]),
    ("tells-of-a-mismatch-that-is-repaired", [(HANDSHAKE, """\
  peer->mismatch.reset();
""", "")]),
    ("takes-the-incarnation-that-is-known", [(REFUSED, """\
  incarnation_ = known + 1;
""", """\
  incarnation_ = known;
""")]),
    ("sessions-on-after-a-raise", [(REFUSED, """\
  session_id_ = DrawNonce(random_);
""", "")]),
    ("peers-keep-the-session-before-a-raise", [(REFUSED, """\
    each.confirmed = false;
""", "")]),
    ("one-peer-raises-again-and-again", [(REFUSED, """\
  if (!peer->raised && in.known_incarnation < kLatestIncarnation) {
""", """\
  if (in.known_incarnation < kLatestIncarnation) {
""")]),
    ("gives-up-at-the-first-mismatch", [(REFUSED, """\
  const bool long_enough = unresolved_.last - unresolved_.since >= config_.give_up_ns;
""", """\
  const bool long_enough = now - unresolved_.since >= config_.give_up_ns;
""")]),
    ("gives-up-though-it-has-met-one", [(REFUSED, """\
  if (unresolved_.reason.empty() || now > wait_ends() || MetCompatible()) {
""", """\
  if (unresolved_.reason.empty() || now > wait_ends()) {
""")]),
    ("an-unauthenticated-reason-hides-a-authenticated-one", [(REFUSED, """\
  if (unresolved_.authenticated && !authenticated) return;
""", "")]),
    ("fields-after-the-name-are-not-checked", [(INTRO_FRAME, """\
  if (in.known == kNoNonce && in.known_incarnation != 0) return false;
""", "")]),

    # ---- Authentication and the filter -------------------------------------------------
    ("all-sessions-have-one-key", [(KEY, """\
  Put<Nonce>(purpose.data(), kName.size() + 10, session_id);
""", "")]),
    ("all-nodes-have-one-key", [(KEY, """\
  Put<uint16_t>(purpose.data(), kName.size() + 8, node);
""", "")]),
    ("a-session-admitted-again-forgets-its-window", [(AUTH, """\
  if (sessions_[node] != nullptr && sessions_[node]->nonce == session_id) return;
""", "")]),
    ("a-replayed-frame-is-accepted", [(AUTH, """\
  if (session.window.Seen(number)) return VerifyResult::kReplayed;
""", "")]),
    ("a-frame-behind-the-window-is-accepted", [(AUTH, """\
  if (session.window.Old(number)) return VerifyResult::kOld;
""", "")]),
    ("a-forged-number-moves-the-window", [(AUTH, """\
  if (session.window.Seen(number)) return VerifyResult::kReplayed;
""", """\
  if (session.window.Seen(number)) return VerifyResult::kReplayed;
  session.window.Mark(number);
""")]),
    ("places-of-old-numbers-are-used-as-they-are", [(REPLAY, """\
        for (uint64_t n = newest_ + 1; n <= number; ++n) words_[Word(n)] &= ~(1ull << (n % 64));
""", "")]),
    ("a-long-jump-keeps-the-window", [(REPLAY, """\
        words_.fill(0);
""", "")]),
    ("strangers-get-in", [(FILTER, """\
  if (!handshake_.IsEstablished(in.from)) return DropReason::kNoSession;
""", "")]),
    ("a-peer-sends-in-anothers-name", [(FILTER, """\
  if (named && FrameSource(in.bytes) != in.from) return DropReason::kSourceMismatch;
""", "")]),
    ("signs-as-before-a-raise", [(FILTER, """\
    MakeSigner();
    LOG(WARNING) << "Node "
""".rstrip("\n"), """\
    LOG(WARNING) << "Node "
""".rstrip("\n"))]),

    # ---- Gossip ----------------------------------------------------------
    ("a-receipt-for-an-earlier-edition-counts", [(GOSSIP, """\
  if (head.version < store_.Newest(entry)) return;
""", "")]),
    ("parts-of-two-editions-make-one", [(GOSSIP, """\
    assembly = {};
    assembly.version""", """\
    assembly.version""")]),
    ("gossip-go-back-where-they-came-from", [(GOSSIP, """\
    ours_to_send_[entry] = is.version.number > 0 && is.via != link_;
""", """\
    ours_to_send_[entry] = is.version.number > 0;
""")]),
    ("a-peers-new-session-gets-no-gossip", [(GOSSIP, """\
  peer->pending = ours_to_send_;
""", "")]),
    ("a-gossip-without-room-waits-its-time", [(GOSSIP, """\
  peer->next_round = now;
  next_event_ = std::min(next_event_, now);
""", "")]),
    ("gossip-of-an-earlier-incarnation-stays", [(STORE, """\
      if (entries_[old].entry.version.number > 0) Set(old, {version.incarnation, 0}, {}, link);
""", "")]),
    ("an-older-edition-is-taken", [(STORE, """\
  if (version <= GossipVersion{incarnations_[node], entries_[entry].entry.version.number}) return false;
""", "")]),

    # ---- The segment --------------------------------------------------------
    ("overdrafts-are-forgiven", [(PACER, """\
  return std::max(level_, 0.0);
""", """\
  return level_ = std::max(level_, 0.0);
""")]),
    ("a-silence-is-saved-up", [(PACER, """\
    level_ = std::min(burst_, level_ + seconds * rate_);
""", """\
    level_ = level_ + seconds * rate_;
""")]),
    ("counts-several-iterations-as-one", [(COALESCING, """\
        static_cast<double>(now_ns - counted_at_) / static_cast<double>(iterations - counted_);
""", """\
        static_cast<double>(now_ns - counted_at_);
""")]),
    ("a-repaired-link-is-logged-for-ever", [(LINK_LOG, """\
    return true;
  });
  std::erase_if(left_out_""", """\
    return false;
  });
  std::erase_if(left_out_""")]),
    ("left-out-for-ever", [(LINK_LOG, """\
      return reported.link.from == node || reported.link.to == node;
""", """\
      return reported.link.from == node || reported.link.to != node;
""")]),
    ("drops-at-the-filter-are-one-peers", [(METRICS, """\
  for (Peer& peer : peer_metrics_) peer.dropped_filter->Set(filter.drops_of(peer.node));
""", """\
  for (Peer& peer : peer_metrics_) peer.dropped_filter->Set(filter.drops_of(peers_[0]));
""")]),
    ("who-is-not-in-sync-is_leader", [(SEGMENT, """\
  if (first && synced(*first)) return first->node;
""", """\
  if (first) return first->node;
""")]),
    ("slots-of-frames-that-can-never-be-sent-are-lost", [(SEGMENT, """\
      exchange_->Release(frame.slot);
""", "")]),
    ("a-full-destination-stops-all-others", [(SEGMENT, """\
    const PostedFrame& frame = held_[begin++];
""", """\
    if (!out_.empty() && sent.status == SendStatus::kBusy) {
      while (begin < held_.size()) held_[kept++] = held_[begin++];
      break;
    }
    const PostedFrame& frame = held_[begin++];
""")]),
    ("gossip-are-not-paced", [(SEGMENT, """\
    const size_t room = std::min(gossip_out_.size(), Affordable(now_ns));
""", """\
    const size_t room = gossip_out_.size();
""")]),
    ("is-all_acked-before-all-members-are", [(SEGMENT, """\
                       return m.node == config_.exchange.node || gossip_->Has(m.node, seen);
""", """\
                       return m.node == config_.exchange.node || gossip_->seen() == seen;
""")]),
    ("an-age-is-of-the-freshest", [(DIVERGENCE, """\
    tally.oldest_ns = std::max(tally.oldest_ns, age);
    if""", """\
    tally.oldest_ns = age;
    if""")]),

    # ---- Merged weights, staleness ------------------------------------------
    ("what-a-master-has-is-read-from-its-base", [(MERGED, """\
  return (chunk.state != ChunkState::kMaster || merges_own) && chunk.number > 0 && !chunk.demoting;
""", """\
  return (merges_own || true) && chunk.number > 0 && !chunk.demoting;
""")]),
    ("a-base-is-read-before-it-is-set", [(MERGED, """\
  return (chunk.state != ChunkState::kMaster || merges_own) && chunk.number > 0 && !chunk.demoting;
""", """\
  return (chunk.state != ChunkState::kMaster || merges_own) && !chunk.demoting;
""")]),
    ("live-weights-pass-for-merged-ones", [(MERGED, """\
    op.kind = ChunkOpKind::kReturn;
""", """\
    op.kind = ChunkOpKind::kRead;
""")]),
    ("merged-weights-are-read-in-one-pass", [(MERGED, """\
rows < kMaxRows && copied < kPortionBytes; ++next_) {
""", """\
rows < kMaxRows; ++next_) {
""")]),
    ("a-failed-segment-keeps-readers", [(SEGMENT, """\
    merged_->Close();
""", "")]),
    ("merged-weights-are-of-the-lower-segment", [(CLUSTER, """\
  for (const bool above : {true, false}) {
""", """\
  for (const bool above : {false, true}) {
""")]),
    ("segments-of-other-weights-keep-each-other-awake", [(CLUSTER, """\
      if (k != i && Overlap(segments_[i].range(), segments_[k].range())) others += merges_[k];
""", """\
      if (k != i) others += merges_[k];
""")]),
    ("warns-of-one-stale-second", [(STALENESS, """\
  stale_steps_ = stale ? stale_steps_ + 1 : 0;
""", """\
  stale_steps_ = stale ? stale_steps_ + 5 : 0;
""")]),
    ("warns-of-all-stale-seconds-together", [(STALENESS, """\
  stale_steps_ = stale ? stale_steps_ + 1 : 0;
""", """\
  stale_steps_ += stale ? 1 : 0;
""")]),
]

# Not in the table, because nobody could tell:
# - the members are asked whether they have the gossip of an earlier change: the segment asks
#   of the newest that it has seen, so what they lack decides alone.
