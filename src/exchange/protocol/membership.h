// Membership: failure detection, and agreement on a sequence of views. Pure logic. docs/exchange.md
// describes why it is safe.
//
// Every node sends heartbeats with its view and its intent. The coordinator, the lowest synced
// member that is alive, proposes the next view when a member must be added, dropped or given
// another role. The view is agreed on when all members that it names have accepted it; heartbeats
// then distribute it. A member moves from a view only to one of its successors. A node outside the
// view (late, stalled, disconnected, or on the smaller side of a partition) asks to join as a new
// incarnation. It discards its state only when a view that names that incarnation is agreed on.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_MEMBERSHIP_H_
#define MILLRACE_EXCHANGE_PROTOCOL_MEMBERSHIP_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/protocol/frame.h"
#include "exchange/protocol/link_monitor.h"
#include "exchange/protocol/view.h"

namespace millrace::inline exchange {

struct MembershipConfig {
  uint16_t node = 0;
  uint16_t max_nodes = 2;  // ids are below this
  // Larger on each start of this node. If peers have seen this one or a larger one, because the
  // node joined again before, the node takes the next.
  uint32_t incarnation = 1;
  int64_t heartbeat_ns = 100'000'000;       // minimum interval; jitter adds up to half of it
  int64_t peer_timeout_ns = 2'000'000'000;  // a peer without frames for this time is suspected
  // A node that has found no view to join within this time forms one with its own weights, unless
  // it receives heartbeats from a node with a lower id. Negative: never.
  int64_t bootstrap_after_ns = 1'000'000'000;
  // No other node bootstraps, so that this one need not wait for nodes with lower ids.
  bool sole_bootstrapper = false;
  // Bootstraps only after AllowBootstrap.
  bool bootstraps_when_allowed = false;
  // Maximum size of a view, joining members included; further nodes wait until there is room. Equal
  // on all nodes: a larger view is rejected. 0: max_nodes.
  uint16_t max_members = 0;
  uint32_t examples = 0;  // ExchangeConfig::examples of this node
};

// Status of a node, as sent in its heartbeats.
struct NodeStatus {
  enum class Intent : uint8_t { kNone = 0, kJoin = 1, kLeave = 2 };
  Intent intent = Intent::kNone;
  bool synced = false;        // has every chunk
  bool drained = false;       // leaving, and has nothing left to send
  uint16_t live = 0;          // synced members of its view that it considers alive, itself included
  uint64_t global_clock = 0;  // iterations of all members together, past members included
  uint32_t joining_incarnation = 0;  // the incarnation with which it would join
  ViewId target;                     // the view that it asks to join
  uint32_t promised_epoch = 0;       // it accepts no proposal with a lower epoch
  uint16_t full_size_sent = 0;       // see LinkMonitor::OnReport
  uint32_t examples = 0;             // ExchangeConfig::examples
};

// A frame to send; Poll writes its payload separately.
struct MembershipMessage {
  FrameType type = FrameType::kHeartbeat;
  uint16_t destination = kAllNodes;
  uint32_t payload_bytes = 0;
  // Heartbeat: the sender's link report (LinkMonitor::report). Valid until the next call.
  std::span<const std::byte> report = {};
};

// Not thread-safe. Allocates nothing after construction.
class Membership {
 public:
  explicit Membership(const MembershipConfig& config);

  // The view that this node is in; epoch 0 while it is in none.
  const View& view() const { return view_; }
  uint32_t incarnation() const { return incarnation_; }
  Role role() const { return role_; }
  bool synced() const { return synced_; }
  bool left() const { return left_; }
  // Left, and the other members have all of this node's progress.
  bool delivered() const { return delivered_; }
  // Returns true once after the view has changed. `*reset`: this node joined the view as a new
  // incarnation and must discard its state.
  bool TakeChange(bool* reset);

  // Reports that this node has every chunk.
  void SetSynced();
  // Reports that nothing is left to send in this view. Call it again in each new view.
  void SetDrained();
  // Reports this node's own iterations in this incarnation.
  void SetClock(uint64_t clock) { clock_ = std::min(clock, kMaxClock); }
  uint64_t clock() const { return clock_; }
  // Reports how many full-size frames this node has sent to all nodes, modulo 2^16.
  void SetFullSizeSent(uint16_t count) { full_size_sent_ = count; }
  // Sets a lower bound on the next incarnation of this node, or on the current one while it is in
  // no view.
  void RaiseIncarnation(uint32_t least);
  // From now on this node may bootstrap, or may not until it is synced again.
  void AllowBootstrap() { may_bootstrap_ = true; }
  void ForbidBootstrap() { may_bootstrap_ = false; }
  // Asks to leave the view. left() becomes true eventually.
  void Leave();

  // Advances the time. Call it before anything else whenever time has passed.
  void Tick(int64_t now);
  // Records a valid frame of another node of this run, of any type. `is_full_size`: see
  // LinkMonitor::OnFrame. Returns false unless a member, in the incarnation that the view names,
  // sent the frame in this view.
  bool OnFrame(const FrameHeader& header, bool is_full_size, int64_t now);
  // Handles a kHeartbeat, kPropose or kAccept frame. Returns false if the payload is not valid.
  bool Receive(const FrameView& frame, int64_t now);

  // Returns the next message that is due and writes its payload to `payload` (room for
  // MaxPayloadBytes(max_members) bytes). Returns false if none is due.
  bool Poll(int64_t now, MembershipMessage* message, std::byte* payload);
  // Time at which Poll next has a message if nothing is received before.
  int64_t NextEvent() const;
  static size_t MaxPayloadBytes(uint16_t max_members);

  // Iterations of all members together, past members included.
  uint64_t global_clock() const;
  // Whether this node is in a view that another view has superseded or that precedes it, and waits
  // to join that view.
  bool waits_to_join() const { return view_.id && intent_ == NodeStatus::Intent::kJoin; }
  // Whether a frame of the member arrived within the peer timeout. Always true of this node.
  bool Alive(uint16_t node) const;
  // Which members do not receive frames from each other.
  const LinkMonitor& links() const { return links_; }
  // Whether no member of this node's view has every chunk, or this node has given up such a view
  // with a part of the chunks: it waits for a node that has all.
  bool LacksWeights() const;
  // The member that this node considers the coordinator; kNoNode if there is none.
  uint16_t Coordinator() const;
  // Examples of an iteration of the node, from its last heartbeat. 0: unknown.
  uint32_t Examples(uint16_t node) const {
    return node == config_.node ? config_.examples : peers_[node].status.examples;
  }
  // How long a node has asked to join this node's view without becoming a member, in ns. 0 if it
  // does not ask, or waits for a broken link or for room in the view.
  int64_t WaitsToBeAdmittedNs(uint16_t node) const;

 private:
  static constexpr uint16_t kNoPlace = UINT16_MAX;
  // Peer timeouts after which joining nodes give up a view whose members with every chunk do not
  // respond. These may only stand still, with the weights of the run.
  static constexpr int64_t kAbandonTimeouts = 5;
  // Expected distance at most between the epochs of two nodes: proposals of years.
  static constexpr uint32_t kMaxEpochStep = uint32_t{1} << 28;

  struct Peer {
    uint16_t place = kNoPlace;  // index in the view's members
    bool known = false;         // a heartbeat has been received
    bool replaced = false;      // a later incarnation than the view names is running
    bool accepted = false;      // accepted the current proposal
    bool unresponsive = false;  // did not answer a proposal that asked it to join
    bool confirmed = false;     // a frame of the member arrived that was sent in this view
    int64_t last_frame_at = 0;  // last frame as the member that the view names
    int64_t asking_since = -1;  // when it began to ask to join this view; -1: it does not
    int64_t heartbeat_at = 0;   // last heartbeat, member or not
    uint32_t incarnation = 0;   // of the last heartbeat, as `view` and `status`
    uint64_t clock = 0;
    ViewId view;
    NodeStatus status;
  };

  // Decides between two views if neither descends from the other.
  struct Rank {
    uint64_t clock = 0;
    uint16_t live = 0;
    ViewId id;
    // Both sides of a partition must reach the same result.
    bool Precedes(const Rank& other) const;
  };
  Rank OwnRank() const { return {global_clock(), LiveSynced(), view_.id}; }

  // Decodes a view into scratch_. Returns false if it is invalid, or too large for this node to
  // forward.
  bool ReadView(std::span<const std::byte> in);
  bool OnHeartbeat(const FrameView& frame, int64_t now);
  bool OnPropose(const FrameView& frame);
  bool OnAccept(const FrameView& frame, int64_t now);
  void ConsiderView(uint16_t source, const NodeStatus& status, int64_t now);
  void UpdateLinks(int64_t now);
  bool IsLinked(uint16_t node, const View& next) const;
  bool BetterThanTarget(const Rank& theirs, bool stays) const;
  bool AcceptableAsMember() const;
  bool AcceptableAsJoiner() const;
  // The epoch that is `step` above that of this node's view, at most kMaxEpoch.
  uint32_t EpochAbove(uint32_t step) const {
    return view_.id.epoch + std::min(step, kMaxEpoch - view_.id.epoch);
  }
  // Whether a node of this view can have got as far. Otherwise the epoch is damaged or forged:
  // nodes go from view to view, and from proposal to proposal, in steps of 1.
  bool IsExpected(uint32_t epoch) const { return !view_.id || epoch <= EpochAbove(kMaxEpochStep); }
  // Learns no epoch of which others would not expect the successors.
  void LearnEpoch(uint32_t epoch) {
    if (epoch <= EpochAbove(kMaxEpochStep / 2)) max_epoch_ = std::max(max_epoch_, epoch);
  }
  ViewId NextId() const { return {max_epoch_ + 1, config_.node, incarnation_}; }
  void Promise(const View& proposal);
  bool IsPromised(ViewId id) const { return id == promised_ || id == promised_before_; }
  void Install(const View& view, bool reset, int64_t now);
  void Bootstrap(int64_t now);
  bool HasEveryChunk(const Member& member) const;
  void Abandon(int64_t now);
  bool IsCoordinator() const { return Coordinator() == config_.node; }
  bool Compose(bool with_unresponsive, View* next) const;
  void ComposeMember(const Member& member, View* next) const;
  void ProposeIfNeeded(int64_t now);
  bool MayAskAgain() const;
  bool AnotherChangeIsDue();
  void EndProposal();
  void CommitIfAccepted(int64_t now);
  bool AsksToJoin(const Peer& peer) const;
  bool IsJoining(const Peer& peer, const View& next) const;
  bool Recent(int64_t at) const { return now_ - at < config_.peer_timeout_ns; }
  uint32_t joining_incarnation() const {
    return std::max(view_.id ? incarnation_ + 1 : incarnation_, min_incarnation_);
  }
  void LearnIncarnation();
  uint16_t LiveSynced() const;
  bool PollProposal(int64_t now, MembershipMessage* message, std::byte* payload);
  void WriteStatus(std::byte* out) const;

  const MembershipConfig config_;
  const size_t max_members_;
  View view_, proposal_, scratch_;
  std::vector<Peer> peers_;
  LinkMonitor links_;
  std::vector<uint64_t> alive_;  // scratch of UpdateLinks
  Role role_ = Role::kJoining;   // in view_
  uint32_t incarnation_;
  uint32_t min_incarnation_ = 0;  // lower bound on the next incarnation
  bool synced_ = false, drained_ = false, left_ = false, delivered_ = false;
  bool changed_ = false, reset_ = false;
  uint64_t clock_ = 0;
  uint16_t full_size_sent_ = 0;

  NodeStatus::Intent intent_ = NodeStatus::Intent::kNone;
  ViewId target_;
  Rank target_rank_;
  bool target_stays_ = false;  // the target's sender does not itself intend to join another view
  int64_t target_last_frame_at_ = 0;

  ViewId promised_;  // proposals below it are not accepted
  // The promise before `promised_`, if that is the predecessor of `promised_`. Both may be agreed
  // on.
  ViewId promised_before_;
  uint32_t max_epoch_ = 0;  // largest epoch received or promised, among those expected
  bool proposing_ = false, proposed_to_all_ = false;
  bool asks_again_ = false;    // the proposal only asks nodes that did not answer an earlier one
  uint16_t propose_next_ = 0;  // lowest node that this round has not asked yet
  int64_t proposed_at_ = 0, propose_due_ = 0, next_proposal_at_ = 0;
  bool accept_due_ = false;
  uint16_t accept_to_ = 0;

  bool may_bootstrap_ = true;
  bool started_ = false;
  int64_t now_ = 0, started_at_ = 0, heartbeat_due_ = 0;
  int64_t coordinated_at_ = 0;  // last time at which the view had a coordinator
  uint64_t heartbeats_ = 0;     // sent
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_MEMBERSHIP_H_
