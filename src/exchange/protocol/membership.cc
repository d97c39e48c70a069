#include "exchange/protocol/membership.h"

#include <algorithm>

#include "base/jitter.h"
#include "base/wire_bytes.h"

namespace millrace::inline exchange {
namespace {

using Intent = NodeStatus::Intent;

constexpr size_t kStatusBytes = 32;

bool ReadStatus(std::span<const std::byte> in, NodeStatus* status) {
  if (in.size() < kStatusBytes) return false;
  const std::byte* p = in.data();
  const uint8_t intent = Get<uint8_t>(p, 0), flags = Get<uint8_t>(p, 1);
  if (intent > static_cast<uint8_t>(Intent::kLeave) || flags > 3) return false;
  status->intent = static_cast<Intent>(intent);
  status->synced = flags & 1;
  status->drained = flags & 2;
  status->live = Get<uint16_t>(p, 2);
  status->joining_incarnation = Get<uint32_t>(p, 4);
  status->target = GetViewId(p + 8);
  status->full_size_sent = Get<uint16_t>(p, 18);
  status->promised_epoch = Get<uint32_t>(p, 20);
  status->global_clock = Get<uint64_t>(p, 24);
  return status->promised_epoch <= kMaxEpoch && status->global_clock <= kMaxNodes * kMaxClock;
}

}  // namespace

Membership::Membership(const MembershipConfig& config)
    : config_(config),
      max_members_(config.max_members > 0 ? config.max_members : config.max_nodes),
      peers_(config.max_nodes),
      links_(config.node, config.max_nodes, config.peer_timeout_ns),
      alive_(AckWords(config.max_nodes)),
      incarnation_(config.incarnation) {
  may_bootstrap_ = !config.bootstraps_when_allowed;
  view_.Reserve(config.max_nodes);
  proposal_.Reserve(config.max_nodes);
  scratch_.Reserve(config.max_nodes);
}

bool Membership::TakeChange(bool* reset) {
  *reset = reset_;
  const bool changed = changed_;
  changed_ = reset_ = false;
  return changed;
}

void Membership::SetSynced() {
  if (!synced_) heartbeat_due_ = now_;
  synced_ = may_bootstrap_ = true;
}

void Membership::SetDrained() {
  if (!drained_) heartbeat_due_ = now_;
  drained_ = true;
}

void Membership::Leave() {
  if (intent_ == Intent::kLeave) return;
  intent_ = Intent::kLeave;
  heartbeat_due_ = now_;
  if (!view_.id) left_ = true;
}

// ---- Time -------------------------------------------------------------------

void Membership::Tick(int64_t now) {
  if (!started_) {
    started_ = true;
    started_at_ = heartbeat_due_ = now_ = now;
  }
  // A node that was stalled for long received no frames. That is no evidence against its peers.
  if (now - now_ > config_.peer_timeout_ns / 2) {
    for (Peer& peer : peers_) peer.last_frame_at += now - now_;
    links_.Skip(now - now_);
    started_at_ += now - now_;
    coordinated_at_ += now - now_;
  }
  now_ = now;
  if (left_) return;
  if (intent_ == Intent::kJoin && !Recent(target_last_frame_at_)) intent_ = Intent::kNone;
  if (proposing_ && (!Recent(proposed_at_) || (asks_again_ && AnotherChangeIsDue()))) {
    EndProposal();
  }
  if (!view_.id) return Bootstrap(now);
  if (links_.IsDue(now)) UpdateLinks(now);
  if (synced_ || Coordinator() != kNoNode) coordinated_at_ = now;
  if (now - coordinated_at_ >= kAbandonTimeouts * config_.peer_timeout_ns) return Abandon(now);
  ProposeIfNeeded(now);
}

// Leaves a view of which no member has every chunk, as if this node had just started. It must not
// become synced there: its weights would be those of the run in some chunks and its own in others.
void Membership::Abandon(int64_t now) {
  left_ = intent_ == Intent::kLeave;
  proposal_ = view_;
  incarnation_ = joining_incarnation();
  view_.id = {};
  view_.ancestors.clear();
  view_.members.clear();
  view_.past_clock = 0;
  links_.OnView(view_, proposal_, now);
  for (Peer& peer : peers_) {
    peer.place = kNoPlace;
    peer.asking_since = -1;
  }
  role_ = Role::kJoining;
  clock_ = 0;
  drained_ = proposing_ = accept_due_ = false;
  if (!left_) intent_ = Intent::kNone;
  changed_ = reset_ = true;
  started_at_ = heartbeat_due_ = now;
}

void Membership::UpdateLinks(int64_t now) {
  std::fill(alive_.begin(), alive_.end(), 0);
  for (const Member& member : view_.members) SetBit(alive_, member.node, Alive(member.node));
  links_.Update(view_, alive_, now);
}

void Membership::Bootstrap(int64_t now) {
  if (config_.bootstrap_after_ns < 0 || now - started_at_ < config_.bootstrap_after_ns) return;
  if (!may_bootstrap_) return;
  if (intent_ == Intent::kJoin) return;
  for (uint16_t node = 0; node < config_.node && !config_.sole_bootstrapper; ++node) {
    if (peers_[node].known && Recent(peers_[node].heartbeat_at)) return;
  }
  proposal_.id = NextId();
  proposal_.ancestors.clear();
  proposal_.past_clock = 0;
  proposal_.members.clear();
  proposal_.members.push_back({config_.node, Role::kSynced, incarnation_, 0});
  synced_ = true;
  Promise(proposal_);
  Install(proposal_, false, now);
}

int64_t Membership::NextEvent() const {
  int64_t next = heartbeat_due_;
  if (proposing_) next = std::min(next, propose_due_);
  return accept_due_ ? now_ : next;
}

// ---- Receiving --------------------------------------------------------------

bool Membership::Alive(uint16_t node) const {
  if (node == config_.node) return true;
  const Peer& peer = peers_[node];
  return !peer.replaced && Recent(peer.last_frame_at);
}

uint16_t Membership::LiveSynced() const {
  return static_cast<uint16_t>(std::count_if(
      view_.members.begin(), view_.members.end(),
      [&](const Member& member) { return member.role == Role::kSynced && Alive(member.node); }));
}

bool Membership::OnFrame(const FrameHeader& header, bool is_full_size, int64_t now) {
  if (header.source >= config_.max_nodes || header.source == config_.node) return false;
  if (links_.OnFrame(header.source, is_full_size, now)) heartbeat_due_ = now;
  Peer& peer = peers_[header.source];
  if (peer.place == kNoPlace) return false;
  const Member* member = &view_.members[peer.place];
  if (header.incarnation != member->incarnation) {
    if (header.incarnation > member->incarnation) peer.replaced = true;
    return false;
  }
  peer.clock = std::max(peer.clock, header.clock);
  if (header.view != view_.id) return false;
  peer.last_frame_at = now;
  peer.confirmed = true;
  return true;
}

bool Membership::Receive(const FrameView& frame, int64_t now) {
  if (frame.header.source >= config_.max_nodes) return false;
  switch (frame.header.type) {
    case FrameType::kHeartbeat:
      return OnHeartbeat(frame, now);
    case FrameType::kPropose:
      return OnPropose(frame);
    case FrameType::kAccept:
      return OnAccept(frame, now);
    default:
      return false;
  }
}

bool Membership::ReadView(std::span<const std::byte> in) {
  return DecodeView(in, config_.max_nodes, &scratch_) && scratch_.members.size() <= max_members_;
}

bool Membership::OnHeartbeat(const FrameView& frame, int64_t now) {
  NodeStatus status;
  const size_t padding = frame.header.number;
  if (frame.acks.size() != links_.report().size() || padding > frame.payload.size()) return false;
  const auto payload = frame.payload.first(frame.payload.size() - padding);
  if (!ReadStatus(payload, &status) || !ReadView(payload.subspan(kStatusBytes)) ||
      scratch_.id != frame.header.view) {
    return false;
  }
  status.examples = frame.header.seq;
  const uint32_t epoch = std::max(scratch_.id.epoch, status.promised_epoch);
  if (!IsExpected(epoch)) return false;
  Peer& peer = peers_[frame.header.source];
  // Ignores an earlier incarnation, unless the later one is gone: then the node has started again
  // with a lower number.
  const bool remembered =
      Recent(peer.heartbeat_at) || view_.Has(frame.header.source, peer.incarnation);
  if (peer.known && frame.header.incarnation < peer.incarnation && remembered) return true;
  peer.known = true;
  peer.incarnation = frame.header.incarnation;
  peer.view = frame.header.view;
  peer.status = status;
  peer.heartbeat_at = now;
  if (!AsksToJoin(peer)) {
    peer.asking_since = -1;
  } else if (peer.asking_since < 0) {
    peer.asking_since = now;
  }
  links_.OnReport(frame.header.source, frame.acks, status.full_size_sent, now);
  LearnEpoch(epoch);
  if (left_) return true;
  LearnIncarnation();
  ConsiderView(frame.header.source, status, now);
  return true;
}

// A view that names a later incarnation of this node than it has used itself stems from an earlier
// start. So does a view that names the incarnation with which this node would join, if the node is
// in no view and never promised to be part of that one. The node then takes the next incarnation.
void Membership::LearnIncarnation() {
  const Member* self = scratch_.Find(config_.node);
  if (!self || self->incarnation < joining_incarnation()) return;
  if (self->incarnation >= kLatestIncarnation) return;  // damaged or forged
  const bool this_incarnation = view_.id || IsPromised(scratch_.id);
  if (self->incarnation == joining_incarnation() && this_incarnation) return;
  RaiseIncarnation(self->incarnation + 1);
}

void Membership::RaiseIncarnation(uint32_t least) {
  min_incarnation_ = std::max(min_incarnation_, least);
  if (!view_.id) incarnation_ = std::max(incarnation_, min_incarnation_);
}

// Decides what the view in scratch_, which node `source` is in, means for this node.
void Membership::ConsiderView(uint16_t source, const NodeStatus& status, int64_t now) {
  if (!scratch_.id || scratch_.id == view_.id) return;
  if (view_.id && scratch_.id > view_.id && scratch_.predecessor() == view_.id &&
      scratch_.Has(config_.node, incarnation_)) {
    return Install(scratch_, false, now);
  }
  if (IsPromised(scratch_.id) && scratch_.Has(config_.node, joining_incarnation()) &&
      intent_ == Intent::kJoin) {
    return Install(scratch_, true, now);
  }
  if (intent_ == Intent::kLeave) {
    // Dropped from the view, as requested or because it was suspected.
    if (scratch_.DescendsFrom(view_.id) && !scratch_.Has(config_.node, incarnation_)) {
      left_ = true;
      delivered_ = drained_ && role() == Role::kLeaving;
    }
    return;
  }
  if (view_.DescendsFrom(scratch_.id)) return;  // `source` will receive this node's newer view
  // `source` would not receive a request to join. Only a node that the others had to exclude waits
  // for the link to be repaired; nodes that had to exclude `source` do not.
  if (links_.Reports(source, config_.node) && intent_ != Intent::kJoin &&
      !links_.IsExcluded(config_.node)) {
    return;
  }
  const Rank theirs{status.global_clock, status.live, scratch_.id};
  // A node that itself intends to join another view is followed only if its view precedes this
  // node's. Descent and rank may disagree, and following both could lead around in a circle.
  const bool stays = status.intent != Intent::kJoin;
  const bool evicted = stays && scratch_.DescendsFrom(view_.id);
  if (view_.id && !evicted && !theirs.Precedes(OwnRank())) {
    if (intent_ == Intent::kJoin && scratch_.id == target_) intent_ = Intent::kNone;
    return;
  }
  if (intent_ == Intent::kJoin && !BetterThanTarget(theirs, stays)) return;
  if (intent_ != Intent::kJoin) heartbeat_due_ = now;
  intent_ = Intent::kJoin;
  target_ = scratch_.id;
  target_rank_ = theirs;
  target_stays_ = stays;
  target_last_frame_at_ = now;
}

// Whether the view in scratch_ is at least as good to join as the current target.
bool Membership::BetterThanTarget(const Rank& theirs, bool stays) const {
  if (scratch_.id == target_) return true;
  if (stays != target_stays_) return stays;
  return (stays && scratch_.DescendsFrom(target_)) || !target_rank_.Precedes(theirs);
}

// A view of which synced members are alive precedes one of which none is; then the one with more
// iterations; then the one with more live synced members, the higher epoch, the lower coordinator.
bool Membership::Rank::Precedes(const Rank& other) const {
  if ((live > 0) != (other.live > 0)) return live > 0;
  if (clock != other.clock) return clock > other.clock;
  if (live != other.live) return live > other.live;
  if (id.epoch != other.id.epoch) return id.epoch > other.id.epoch;
  return id.coordinator < other.id.coordinator;
}

// ---- Agreement --------------------------------------------------------------

// A coordinator may have agreed on a view and propose its successor before a joining node has
// received the first of them as agreed on. So the promise before stays valid as long as it is the
// predecessor of the last one.
void Membership::Promise(const View& proposal) {
  const ViewId before = proposal.predecessor();
  promised_before_ = before == promised_ || before == promised_before_ ? before : ViewId{};
  promised_ = proposal.id;
  max_epoch_ = std::max(max_epoch_, promised_.epoch);
  if (proposing_ && proposal_.id != promised_) proposing_ = false;
}

// Whether this node, as a member, accepts the proposal in scratch_. A member with a lower id than
// the proposer may be dropped only if this node suspects it too or reports its link to it as
// broken, or if it is drained or excluded for its links. On members with higher ids the proposer
// decides alone; otherwise one broken link could block all changes.
bool Membership::AcceptableAsMember() const {
  if (!view_.id || scratch_.predecessor() != view_.id ||
      !scratch_.Has(config_.node, incarnation_)) {
    return false;
  }
  return std::all_of(view_.members.begin(), view_.members.end(), [&](const Member& member) {
    if (scratch_.Has(member.node, member.incarnation)) return true;
    const Peer& peer = peers_[member.node];
    const bool leaving = peer.known && peer.view == view_.id && peer.status.drained;
    const bool after = member.node > scratch_.id.coordinator && member.node != config_.node;
    return after || leaving || !Alive(member.node) || links_.IsExcluded(member.node) ||
           links_.Reports(config_.node, member.node);
  });
}

bool Membership::AcceptableAsJoiner() const {
  const Member* self = scratch_.Find(config_.node);
  return intent_ == Intent::kJoin && self && self->incarnation == joining_incarnation() &&
         self->role == Role::kJoining &&
         (scratch_.predecessor() == target_ || scratch_.DescendsFrom(target_));
}

bool Membership::OnPropose(const FrameView& frame) {
  if (!ReadView(frame.payload) || !scratch_.id || scratch_.id.coordinator != frame.header.source) {
    return false;
  }
  if (!IsExpected(scratch_.id.epoch)) return false;
  LearnEpoch(scratch_.id.epoch);
  if (left_ || scratch_.id <= view_.id || scratch_.id < promised_) return true;
  if (!AcceptableAsMember() && !AcceptableAsJoiner()) return true;
  Promise(scratch_);
  accept_due_ = true;
  accept_to_ = frame.header.source;
  return true;
}

bool Membership::OnAccept(const FrameView& frame, int64_t now) {
  if (frame.payload.size() != kViewIdBytes) return false;
  const ViewId id = GetViewId(frame.payload.data());
  if (!proposing_ || id != proposal_.id) return true;
  if (!proposal_.Find(frame.header.source)) return true;
  peers_[frame.header.source].accepted = true;
  CommitIfAccepted(now);
  return true;
}

void Membership::CommitIfAccepted(int64_t now) {
  if (!proposing_ || promised_ != proposal_.id) return;
  for (const Member& member : proposal_.members) {
    if (member.node != config_.node && !peers_[member.node].accepted) return;
  }
  EndProposal();
  Install(proposal_, false, now);
}

void Membership::Install(const View& view, bool reset, int64_t now) {
  for (const Member& member : view.members) {
    Peer& peer = peers_[member.node];
    const bool same_incarnation = !reset && view_.Has(member.node, member.incarnation);
    peer.clock = std::max(same_incarnation ? peer.clock : 0, member.clock);
    peer.last_frame_at = now;
    peer.replaced = peer.confirmed = false;
    peer.asking_since = -1;
  }
  links_.OnView(view, view_, now);
  view_ = view;
  for (Peer& peer : peers_) peer.place = kNoPlace;
  for (const Member& member : view_.members) {
    peers_[member.node].place = static_cast<uint16_t>(&member - view_.members.data());
  }
  const Member* self = view_.Find(config_.node);
  role_ = self ? self->role : Role::kJoining;
  if (reset) {
    incarnation_ = self->incarnation;
    synced_ = false;
    clock_ = 0;
  }
  drained_ = false;
  if (role_ == Role::kSynced) synced_ = true;
  if (intent_ == Intent::kJoin) intent_ = Intent::kNone;
  proposing_ = false;
  accept_due_ = false;
  changed_ = true;
  reset_ = reset_ || reset;
  heartbeat_due_ = now;
  next_proposal_at_ = coordinated_at_ = now;
}

// ---- Sending ----------------------------------------------------------------

size_t Membership::MaxPayloadBytes(uint16_t max_members) {
  return kStatusBytes + MaxViewBytes(max_members);
}

void Membership::WriteStatus(std::byte* out) const {
  Put<uint8_t>(out, 0, static_cast<uint8_t>(intent_));
  Put<uint8_t>(out, 1, static_cast<uint8_t>((synced_ ? 1 : 0) | (drained_ ? 2 : 0)));
  Put<uint16_t>(out, 2, LiveSynced());
  Put<uint32_t>(out, 4, joining_incarnation());
  PutViewId(target_, out + 8);
  Put<uint16_t>(out, 18, full_size_sent_);
  Put<uint32_t>(out, 20, promised_.epoch);
  Put<uint64_t>(out, 24, global_clock());
}

bool Membership::Poll(int64_t now, MembershipMessage* message, std::byte* payload) {
  if (accept_due_) {
    accept_due_ = false;
    PutViewId(promised_, payload);
    *message = {FrameType::kAccept, accept_to_, kViewIdBytes};
    return true;
  }
  // Before proposals: a heartbeat carries the view that a proposal follows.
  if (now >= heartbeat_due_ && !left_) {
    heartbeat_due_ = now + Spread(config_.heartbeat_ns, config_.node, ++heartbeats_);
    WriteStatus(payload);
    EncodeView(view_, payload + kStatusBytes);
    *message = {FrameType::kHeartbeat, kAllNodes,
                static_cast<uint32_t>(kStatusBytes + ViewBytes(view_)), links_.report()};
    return true;
  }
  return PollProposal(now, message, payload);
}

uint64_t Membership::global_clock() const {
  uint64_t sum = view_.past_clock;
  for (const Member& member : view_.members) {
    sum += member.node == config_.node ? clock_ : peers_[member.node].clock;
  }
  return sum;
}

}  // namespace millrace::inline exchange
