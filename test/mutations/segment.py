"""Bugs in how nodes come to believe each other and what a segment lets in and out, as exchange.py
has them.
"""

HANDSHAKE = "src/segment/handshake/handshake.cc"
REFUSED = "src/segment/handshake/handshake_refused.cc"
INTRO_FRAME, KEY = "src/segment/handshake/handshake_message.cc", "src/segment/auth/key_file.cc"
FILTER, AUTH, REPLAY = "src/segment/handshake/frame_filter.cc", "src/segment/auth/frame_auth.cc", "src/segment/auth/replay_window.h"
GOSSIP, STORE = "src/segment/gossip/gossip.cc", "src/segment/gossip/gossip_store.cc"
SEGMENT_THREAD, PACE = "src/segment/segment_thread.cc", "src/segment/pace.cc"
LINK_LOG, METRICS = "src/segment/link_log.cc", "src/segment/segment_metrics.cc"
MERGED, STALENESS = "src/segment/merged_reader.cc", "src/segment/staleness_watch.cc"
CLUSTER = "src/cluster/cluster.cc"
SEGMENT, DIVERGENCE = "src/segment/net_segment.cc", "src/segment/divergence_sampler.cc"

MUTANTS = [
    ("lets-two-segments-round-across-a-third",
     "src/topology/topology.cc", "IsReached",
     "reached.push_back", "if (reached.size() == 1) reached.push_back"),
    # ---- Merge rules and transports of a plan -------------------------------
    ("what-a-rule-leaves-stays-at-the-end",
     "src/exchange/protocol/worker.cc", "Worker::NoteTake", "if (held_all && op. ... ;", ""),
    ("a-plan-forgets-its-merge-rule", "src/cluster/start.cc", "MakeSegment", "config.rule = plan.rule;", ""),
    ("a-rule-that-leaves-progress-shares-weights",
     "src/topology/topology.cc", "ReadTopology", "CheckMergeRules(topology);", ""),
    ("relays-scale-what-they-bring-by-default",
     "src/topology/topology.cc", "ChooseMergeRules",
     "!SharesWeights(*topology, segment)", "SharesWeights(*topology, segment) || true"),
    ("the-file-has-no-say-in-damping",
     "src/topology/topology.cc", "ChooseMergeRules",
     "if (!segment.names_damping) segment.damping = chosen", "segment.damping = chosen"),
    ("a-rule-without-a-kernel-is-for-a-gpu",
     "src/topology/read_segments.cc", "SegmentReader::Read", "CheckRuleMemory();", ""),
    ("a-transport-within-a-machine-wants-a-key",
     "src/topology/plan.cc", "Planner::StaysOnThisMachine",
     "if (transport.reach == TransportReach::kMachine) return true;", ""),
    ("clusters-share-a-group",
     "src/topology/plan.cc", "Planner::PlanTransport", "if (transport.has_group) options ... ;", ""),
    ("two-endpoints-in-one-place",
     "src/topology/read_segments.cc", "SegmentReader::CheckAdapter",
     "CheckListener(node, field(last), place)", ""),
    # ---- Handshake and proofs -------------------------------------------
    ("a-recorded-handshake-is-believed",
     HANDSHAKE, "Handshake::Validate", "!fresh", "!fresh && in.echo == kNoNonce"),
    ("a-challenge-proves-more-than-one-thing",
     HANDSHAKE, "Handshake::Validate", "if (fresh) peer->challenge = DrawNonce(random_);", ""),
    ("handshake-of-another-key-are-believed",
     HANDSHAKE, "Handshake::CheckKey", "bytes.last<kTagBytes>()", "tag"),
    ("speaks-for-others",
     HANDSHAKE, "Handshake::Take", "if (from != in.source) return DropReason::kSourceMismatch;", ""),
    ("an-earlier-start-replaces-a-later-one",
     HANDSHAKE, "Handshake::MismatchText", "incarnation <", "incarnation ="),
    ("nets-of-other-shapes-are-alike",
     HANDSHAKE, "Handshake::MismatchText",
     "layout_digest)", "layout_digest && theirs.parameters != ours.parameters)"),
    ("is-done-before-the-peer-knows-it", HANDSHAKE, "Handshake::Accept", "in.known == session_id_", "true"),
    ("answers-as-often-as-it-is-asked",
     HANDSHAKE, "Handshake::ScheduleReply", "slow_ns)", "slow_ns && now < 0)"),
    ("the-first-peers-take-all-the-room",
     HANDSHAKE, "Handshake::Send", "if (!peers_.empty()) first_ = (first_ + turn) % peers_.size();", ""),
    ("tells-of-a-mismatch-that-is-repaired", HANDSHAKE, "Handshake::Accept", "peer->mismatch.reset();", ""),
    ("takes-the-incarnation-that-is-known", REFUSED, "Handshake::Raise", "+ 1", ""),
    ("sessions-on-after-a-raise", REFUSED, "Handshake::Raise", "session_id_ = DrawNonce(random_);", ""),
    ("peers-keep-the-session-before-a-raise", REFUSED, "Handshake::Raise", "each.confirmed = false;", ""),
    ("one-peer-raises-again-and-again", REFUSED, "Handshake::LearnIncarnation", "!peer->raised &&", ""),
    ("gives-up-at-the-first-mismatch", REFUSED, "Handshake::Verdict", "unresolved_.last", "now"),
    ("gives-up-though-it-has-met-one", REFUSED, "Handshake::Verdict", "|| MetCompatible()", ""),
    ("an-unauthenticated-reason-hides-a-authenticated-one",
     REFUSED, "Handshake::Record", "if (unresolved_.authenticated && !authenticated) return;", ""),
    ("fields-after-the-name-are-not-checked",
     INTRO_FRAME, "FieldsMakeSense",
     "if (in.known == kNoNonce && in.known_incarnation != 0) return false;", ""),

    # ---- Authentication and the filter -------------------------------------------------
    ("all-sessions-have-one-key",
     KEY, "SessionKey", "Put<Nonce>(purpose.data(), kName.size() + 10, session_id);", ""),
    ("all-nodes-have-one-key",
     KEY, "SessionKey", "Put<uint16_t>(purpose.data(), kName.size() + 8, node);", ""),
    ("a-session-admitted-again-forgets-its-window",
     AUTH, "FrameVerifier::Admit", "if (sessions_[node] ! ... ;", ""),
    ("a-replayed-frame-is-accepted",
     AUTH, "FrameVerifier::VerifyTrailer",
     "if (session.window.Seen(number)) return VerifyResult::kReplayed;", ""),
    ("a-frame-behind-the-window-is-accepted",
     AUTH, "FrameVerifier::VerifyTrailer", "if (session.window.Old(number)) return VerifyResult::kOld;", ""),
    ("a-forged-number-moves-the-window",
     AUTH, "FrameVerifier::VerifyTrailer", "kReplayed;", "kReplayed; session.window.Mark(number);"),
    ("places-of-old-numbers-are-used-as-they-are",
     REPLAY, "Mark", "for (uint64_t n = newest_ + 1; n <= number; ... ;", ""),
    ("a-long-jump-keeps-the-window", REPLAY, "Mark", "words_.fill(0);", ""),
    ("strangers-get-in",
     FILTER, "FrameFilter::Check",
     "if (!handshake_.IsEstablished(in.from)) return DropReason::kNoSession;", ""),
    ("a-peer-sends-in-anothers-name", FILTER, "FrameFilter::Check", "if (named && FrameSource( ... ;", ""),
    ("signs-as-before-a-raise", FILTER, "FrameFilter::FollowHandshake", "MakeSigner();", ""),

    # ---- Gossip ----------------------------------------------------------
    ("a-receipt-for-an-earlier-edition-counts",
     GOSSIP, "Gossip::TakeAck", "if (head.version < store_.Newest(entry)) return;", ""),
    ("parts-of-two-editions-make-one", GOSSIP, "Gossip::Assemble", "= {}; assembly", ""),
    ("gossip-go-back-where-they-came-from", GOSSIP, "Gossip::Refresh", "&& is.via != link_", ""),
    ("a-peers-new-session-gets-no-gossip", GOSSIP, "Gossip::Admit", "peer->pending = ours_to_send_;", ""),
    ("a-gossip-without-room-waits-its-time",
     GOSSIP, "Gossip::NotSent", "peer->next_round = now; next_event_ = std::min(next_event_, now);", ""),
    ("gossip-of-an-earlier-incarnation-stays",
     STORE, "GossipStore::Take",
     "if (entries_[old].entry.version.number > 0) Set(old, {version.incarnation, 0}, {} ... ;", ""),
    ("an-older-edition-is-taken",
     STORE, "GossipStore::Take",
     "if (version <= GossipVersion{incarnations_[node], entries_[entry].entry.version.number} ... ;", ""),

    # ---- The segment --------------------------------------------------------
    ("overdrafts-are-forgiven", PACE, "Pacer::Available", "std::max", "level_ = std::max"),
    ("a-silence-is-saved-up",
     PACE, "Pacer::Available", "std::min(burst_, level_ + seconds * rate_)", "level_ + seconds * rate_"),
    ("counts-several-iterations-as-one",
     SEGMENT_THREAD, "Coalescing::Ns", "/ static_cast<double>(iterations - counted_)", ""),
    ("a-repaired-link-is-logged-for-ever", LINK_LOG, "LinkLog::Update", "true;", "false;"),
    ("left-out-for-ever", LINK_LOG, "LinkLog::Update", "to =", "to !"),
    ("drops-at-the-filter-are-one-peers", METRICS, "SegmentMetrics::Publish", "peer.node", "peers_[0]"),
    ("who-is-not-in-sync-is_leader", SEGMENT, "LeaderOf", "&& synced(*first)", ""),
    ("slots-of-frames-that-can-never-be-sent-are-lost",
     SEGMENT, "NetSegment::Offer", "exchange_->Release(frame.slot);", ""),
    ("a-full-destination-stops-all-others",
     SEGMENT, "NetSegment::Offer",
     "const PostedFrame",
     "if (!out_.empty() && sent.status == SendStatus::kBusy) { while (begin < held_.size()) held_[kept++] "
     "= held_[begin++]; break; } const PostedFrame"),
    ("averages-are-paced-like-sums",
     "src/segment/pace.cc", "Pace::Wanted", "config_.stale_own_iterations > 0", "false"),
    ("a-node-alone-is-never-quiet",
     "src/exchange/protocol/exchange.cc", "Exchange::NextEvent", "quiescent() || alone()", "quiescent()"),
    ("each-window-forgets-exchanges",
     "src/segment/staleness_watch.cc", "StalenessEstimate::Update", "swept >= kMinSweeps", "true"),
    ("gossip-are-not-paced",
     SEGMENT, "NetSegment::SendGossip",
     "std::min(gossip_out_.size(), Affordable(now_ns)", "gossip_out_.size("),
    ("is-all_acked-before-all-members-are",
     SEGMENT, "NetSegment::Publish", "Has(m.node, seen)", "seen() == seen"),
    ("an-age-is-of-the-freshest",
     DIVERGENCE, "DivergenceSampler::SampleChunks", "std::max(tally.oldest_ns, age)", "age"),

    # ---- Merged weights, staleness ------------------------------------------
    ("what-a-master-has-is-read-from-its-base",
     MERGED, "MergedReader::HasMerged",
     "chunk.state != ChunkState::kMaster || merges_own", "merges_own || true"),
    ("a-base-is-read-before-it-is-set", MERGED, "MergedReader::HasMerged", "chunk.number > 0 &&", ""),
    ("live-weights-pass-for-merged-ones", MERGED, "MergedReader::Step", "kReturn;", "kRead;"),
    ("merged-weights-are-read-in-one-pass", MERGED, "MergedReader::Step", "&& copied < kPortionBytes", ""),
    ("a-failed-segment-keeps-readers", SEGMENT, "NetSegment::Pass", "merged_->Close();", ""),
    ("merged-weights-are-of-the-lower-segment",
     CLUSTER, "Cluster::ReadMerged", "true, false", "false, true"),
    ("segments-of-other-weights-keep-each-other-awake",
     CLUSTER, "Cluster::ForwardMerges", "&& Overlap(segments_[i].range(), segments_[k].range())", ""),
    ("warns-of-one-stale-second", STALENESS, "StalenessWatch::Update", "+ 1", "+ 5"),
    ("warns-of-all-stale-seconds-together",
     STALENESS, "StalenessWatch::Update", "= stale ? stale_steps_ +", "+= stale ?"),
]

# Not in the table, because nobody could tell:
# - the members are asked whether they have the gossip of an earlier change: the segment asks
#   of the newest that it has seen, so what they lack decides alone.
