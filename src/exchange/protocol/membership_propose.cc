// The coordinator's part of membership: composes and proposes the next view.
#include <algorithm>

#include "exchange/protocol/membership.h"

namespace millrace::inline exchange {
namespace {

using Intent = NodeStatus::Intent;

// Whether two views have the same members, clocks aside.
bool SameMembers(const View& a, const View& b) {
  return std::equal(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
                    [](const Member& x, const Member& y) {
                      return x.node == y.node && x.role == y.role && x.incarnation == y.incarnation;
                    });
}

}  // namespace

uint16_t Membership::Coordinator() const {
  const bool anybody_synced = LiveSynced() > 0;
  for (const Member& member : view_.members) {
    // Without a live synced member, the lowest live one with every chunk coordinates.
    const bool may = anybody_synced ? member.role == Role::kSynced : HasEveryChunk(member);
    if (may && Alive(member.node) && !links_.IsExcluded(member.node)) return member.node;
  }
  return kNoNode;
}

bool Membership::HasEveryChunk(const Member& member) const {
  if (member.node == config_.node) return synced_;
  const Peer& peer = peers_[member.node];
  return peer.known && peer.incarnation == member.incarnation && peer.status.synced;
}

bool Membership::LacksWeights() const {
  return view_.id ? Coordinator() == kNoNode : !may_bootstrap_ && !config_.bootstraps_when_allowed;
}

// Whether the node asks to join this node's view, and would recognize it.
bool Membership::AsksToJoin(const Peer& peer) const {
  const ViewId target = peer.status.target;
  return view_.id && peer.status.intent == Intent::kJoin &&
         (view_.id == target || view_.DescendsFrom(target));
}

int64_t Membership::WaitsToBeAdmittedNs(uint16_t node) const {
  const Peer& peer = peers_[node];
  const bool asks = peer.asking_since >= 0 && Recent(peer.heartbeat_at) && view_.id;
  const bool has_room = view_.Find(node) || view_.members.size() < max_members_;
  return asks && has_room && IsLinked(node, view_) ? now_ - peer.asking_since : 0;
}

// Whether a node would accept an invitation to join `next`. The node recognizes the view that it
// asked for among the ancestors of the proposal, whose number is limited. An invitation that the
// node cannot accept would block the other members.
bool Membership::IsJoining(const Peer& peer, const View& next) const {
  return peer.known && Recent(peer.heartbeat_at) && peer.status.intent == Intent::kJoin &&
         next.DescendsFrom(peer.status.target);
}

// Whether no link between the node and a member of `next` is broken.
bool Membership::IsLinked(uint16_t node, const View& next) const {
  return std::none_of(next.members.begin(), next.members.end(),
                      [&](const Member& member) { return links_.IsBroken(node, member.node); });
}

void Membership::ComposeMember(const Member& member, View* next) const {
  const bool self = member.node == config_.node;
  const Peer& peer = peers_[member.node];
  const uint64_t clock = self ? clock_ : peer.clock;
  const bool informed = peer.known && peer.incarnation == member.incarnation;
  const Intent intent = self ? intent_ : informed ? peer.status.intent : Intent::kNone;
  const bool drained = informed && peer.view == view_.id && peer.status.drained;
  const bool gone = !self && (!Alive(member.node) || links_.IsExcluded(member.node));
  if (gone || (!self && member.role == Role::kLeaving && drained)) {
    next->past_clock = std::min(next->past_clock + clock, kMaxClock);
    return;
  }
  Member kept = member;
  kept.clock = clock;
  if (intent == Intent::kLeave) {
    kept.role = Role::kLeaving;
  } else if (member.role == Role::kJoining && (self ? synced_ : informed && peer.status.synced)) {
    kept.role = Role::kSynced;
  }
  next->members.push_back(kept);
}

// Composes the next view, except its id, from what this node knows now. `with_unresponsive`:
// includes joining nodes that did not answer an earlier proposal. Returns false if any was left
// out.
bool Membership::Compose(bool with_unresponsive, View* next) const {
  next->ancestors = view_.ancestors;
  next->ancestors.insert(next->ancestors.begin(), view_.id);
  if (next->ancestors.size() > View::kAncestors) next->ancestors.pop_back();
  next->past_clock = view_.past_clock;
  next->members.clear();
  for (const Member& member : view_.members) ComposeMember(member, next);
  bool complete = true;
  for (uint16_t node = 0; node < config_.max_nodes && next->members.size() < max_members_; ++node) {
    if (node == config_.node || !IsJoining(peers_[node], *next) || next->Find(node)) continue;
    if (view_.Has(node, peers_[node].status.joining_incarnation)) continue;
    if (!IsLinked(node, *next)) continue;
    if (peers_[node].unresponsive && !with_unresponsive) {
      complete = false;
      continue;
    }
    next->Insert({node, Role::kJoining, peers_[node].status.joining_incarnation, 0});
  }
  // A view needs a synced member: without one, this node becomes it, as it has every chunk.
  if (next->synced() == 0) {
    for (Member& member : next->members) {
      if (member.node != config_.node) continue;
      member.role = Role::kSynced;
    }
  }
  return complete;
}

void Membership::ProposeIfNeeded(int64_t now) {
  if (intent_ == Intent::kLeave && view_.members.size() == 1) {
    left_ = true;
    return;
  }
  if (proposing_ || intent_ == Intent::kJoin || now < next_proposal_at_ || !IsCoordinator()) return;
  const bool complete = Compose(false, &proposal_);
  asks_again_ = SameMembers(proposal_, view_);
  if (asks_again_) {
    if (complete || !MayAskAgain()) return;
    Compose(true, &proposal_);
  }
  proposal_.id = NextId();
  for (Peer& peer : peers_) peer.accepted = false;
  proposing_ = true;
  proposed_to_all_ = false;
  propose_next_ = 0;
  proposed_at_ = propose_due_ = now;
  next_proposal_at_ = now + config_.heartbeat_ns;
  Promise(proposal_);
  CommitIfAccepted(now);
}

// Whether nodes that did not answer may be asked again: each member has sent a frame in this view,
// so that no member still waits to receive it.
bool Membership::MayAskAgain() const {
  return std::all_of(view_.members.begin(), view_.members.end(), [&](const Member& member) {
    return member.node == config_.node || peers_[member.node].confirmed;
  });
}

// Whether the view has to change for another reason than nodes that did not answer.
bool Membership::AnotherChangeIsDue() {
  Compose(false, &scratch_);
  return !SameMembers(scratch_, view_);
}

// Marks joining nodes that did not answer as unresponsive, so that they do not block other changes:
// they may not receive this node's frames although it receives theirs. They are asked again when
// nothing else is to change, and until something else is. A node that answers becomes responsive
// here and not earlier, so that its answer does not end the proposal for the others.
void Membership::EndProposal() {
  proposing_ = false;
  for (const Member& member : proposal_.members) {
    Peer& peer = peers_[member.node];
    if (!view_.Has(member.node, member.incarnation)) peer.unresponsive = !peer.accepted;
  }
}

// Sends the proposal to all nodes first, then to each member that has not answered, one at a time.
// Simultaneous retries would cause simultaneous answers, which overrun the same queue again.
bool Membership::PollProposal(int64_t now, MembershipMessage* message, std::byte* payload) {
  if (!proposing_ || now < propose_due_) return false;
  uint16_t to = kAllNodes;
  if (proposed_to_all_) {
    const auto& members = proposal_.members;
    const auto unanswered = [&](const Member& member) {
      return member.node >= propose_next_ && member.node != config_.node &&
             !peers_[member.node].accepted;
    };
    const auto found = std::find_if(members.begin(), members.end(), unanswered);
    if (found == members.end()) {  // a round is complete
      propose_next_ = 0;
      propose_due_ = now + config_.heartbeat_ns;
      return false;
    }
    to = found->node;
    propose_next_ = static_cast<uint16_t>(to + 1);
  } else {
    proposed_to_all_ = true;
    propose_due_ = now + config_.heartbeat_ns;
  }
  EncodeView(proposal_, payload);
  *message = {FrameType::kPropose, to, static_cast<uint32_t>(ViewBytes(proposal_))};
  return true;
}

}  // namespace millrace::inline exchange
