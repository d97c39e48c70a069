// Who takes part: failure detection, and the agreement on a sequence of views.
// Pure logic; docs/exchange.md tells why it is safe.
//
// Every node tells all others regularly that it lives, which view it is in and
// what it wishes. The lowest synced member that is alive, the coordinator,
// proposes the next view when somebody has to be added, dropped, or changes its
// role; when all whom it names have accepted, the view holds, and heartbeats carry
// it to its members. A member goes from a view only to one of its successors. A
// node that finds itself outside (too late, frozen, cut off, in the smaller part of
// a divided cluster) asks to join as a new incarnation, and gives up what it has
// only when a view that names it so is agreed on.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_MEMBERSHIP_H_
#define MILLRACE_EXCHANGE_PROTOCOL_MEMBERSHIP_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/protocol/frame.h"
#include "exchange/protocol/link_monitor.h"
#include "exchange/protocol/view.h"

namespace millrace {

struct MembershipConfig {
  uint16_t node = 0;
  uint16_t max_nodes = 2;  // ids are below this
  // Larger each time that this node is started. (Where the others have seen a larger
  // one, because it had to begin anew meanwhile, the node takes the next.)
  uint32_t incarnation = 1;
  int64_t heartbeat_ns = 100'000'000;       // at least; at most half as much again
  int64_t peer_timeout_ns = 2'000'000'000;  // silent for so long: dead
  // A node that hears of no view for so long forms one of its own, with its own
  // weights, if no node with a lower id is about to. Negative: never.
  int64_t bootstrap_after_ns = 1'000'000'000;
  // No other node ever does, so that this one need not wait for those with lower ids.
  bool sole_bootstrapper = false;
  // Forms none before AllowBootstrap.
  bool bootstraps_when_allowed = false;
  // Of a view, those that join included; a node beyond waits until there is room. The same
  // on all nodes: a larger view is refused. 0: max_nodes.
  uint16_t max_members = 0;
};

// What a node says of itself in a heartbeat.
struct NodeStatus {
  enum class Intent : uint8_t { kNone = 0, kJoin = 1, kLeave = 2 };
  Intent intent = Intent::kNone;
  bool synced = false;        // has every chunk
  bool drained = false;       // leaving, and has nothing left to send
  uint16_t live = 0;          // synced members of its view that it hears, itself included
  uint64_t global_clock = 0;  // iterations that its view's members have done together
  uint32_t joining_incarnation = 0;
  ViewId target;                // the view it asks to join
  uint32_t promised_epoch = 0;  // it accepts no proposal below this
};

// What has to be sent: a frame of this type with this payload.
struct MembershipMessage {
  FrameType type = FrameType::kHeartbeat;
  uint16_t destination = kAllNodes;
  uint32_t payload_bytes = 0;
  // Heartbeat: which nodes the sender does not hear; valid until the next call.
  std::span<const std::byte> report = {};
};

// Not thread-safe. Allocates nothing after construction.
class Membership {
 public:
  explicit Membership(const MembershipConfig& config);

  // The view that this node is in; its id is {0, 0} while it is in none.
  const View& view() const { return view_; }
  uint32_t incarnation() const { return incarnation_; }
  Role role() const { return role_; }
  bool synced() const { return synced_; }
  bool left() const { return left_; }
  // Left, and the others have all that this node had.
  bool delivered() const { return delivered_; }
  // True once after the view has changed. `reset` says whether this node joined it
  // anew: it is a new incarnation and has to give up what it had.
  bool TakeChange(bool* reset);

  // The rest of the exchange reports: every chunk is here; nothing is left to send;
  // this node's own iterations in this incarnation.
  void SetSynced();
  // In this view; a new one has to be told again.
  void SetDrained();
  void SetClock(uint64_t clock) { clock_ = clock; }
  uint64_t clock() const { return clock_; }
  // The next life of this node, or this one while it is in no view, has at least this
  // incarnation.
  void RaiseIncarnation(uint32_t least);
  // From now on this node may form a view of its own.
  void AllowBootstrap() { may_bootstrap_ = true; }
  // Asks to be let go; left() is true in the end.
  void Leave();

  // To be called before anything else whenever time has passed.
  void Tick(int64_t now);
  // A valid frame of another node of this run, of any type; `is_largest`: of the size of the
  // largest frames that nodes send. False when it is not from a member of this view in its
  // present incarnation.
  bool OnFrame(const FrameHeader& header, bool is_largest, int64_t now);
  // The three types of frame that are for membership. False: not a payload of that
  // type.
  bool Receive(const FrameView& frame, int64_t now);

  // The next message that is due; its payload is written to `payload` (room for
  // MaxPayloadBytes of max_members). False when none is.
  bool Poll(int64_t now, MembershipMessage* message, std::byte* payload);
  // When Poll will next have something if nothing is received until then.
  int64_t NextEvent() const;
  static size_t MaxPayloadBytes(uint16_t max_members);

  // Iterations done by all members together, past ones included.
  uint64_t global_clock() const;
  // Is in a view that another one outranks or has followed, and waits to be let in there.
  bool waits_to_join() const { return view_.id && intent_ == NodeStatus::Intent::kJoin; }
  // Whether a member has been heard lately.
  bool Alive(uint16_t node) const;
  // Which members do not hear each other.
  const LinkMonitor& links() const { return links_; }

 private:
  static constexpr uint16_t kNoPlace = UINT16_MAX;

  struct Peer {
    uint16_t place = kNoPlace;  // among the view's members
    bool known = false;         // a heartbeat has been received
    bool replaced = false;      // lives on as another incarnation than the view says
    bool accepted = false;      // the proposal under way
    bool unresponsive = false;  // it was asked to join, and did not answer
    int64_t heard_at = 0;       // as the member that the view names
    int64_t heartbeat_at = 0;   // as anything
    uint32_t incarnation = 0;
    uint64_t clock = 0;
    ViewId view;
    NodeStatus status;
  };

  // What decides between two views neither of which follows from the other.
  struct Rank {
    uint64_t clock = 0;
    uint16_t live = 0;
    ViewId id;
    // Both sides of a divided cluster must come to the same result.
    bool Precedes(const Rank& other) const;
  };
  Rank OwnRank() const { return {global_clock(), LiveSynced(), view_.id}; }

  // Into scratch_; false if it is no view, or one that this node could not pass on.
  bool ReadView(std::span<const std::byte> in);
  bool OnHeartbeat(const FrameView& frame, int64_t now);
  bool OnPropose(const FrameView& frame);
  bool OnAccept(const FrameView& frame, int64_t now);
  void ConsiderView(uint16_t source, const NodeStatus& status, int64_t now);
  void LookAtLinks(int64_t now);
  bool IsLinked(uint16_t node, const View& next) const;
  bool BetterThanTarget(const Rank& theirs, bool stays) const;
  bool AcceptableAsMember() const;
  bool AcceptableAsJoiner() const;
  ViewId NextId() const { return {max_epoch_ + 1, config_.node, incarnation_}; }
  void Promise(ViewId id);
  void Install(const View& view, bool reset, int64_t now);
  void Bootstrap(int64_t now);
  bool IsCoordinator() const;
  bool Compose(bool with_silent, View* next) const;
  void ComposeMember(const Member& member, View* next) const;
  void ProposeIfNeeded(int64_t now);
  void GiveUpProposal();
  void CommitIfAccepted(int64_t now);
  bool WantsToJoin(const Peer& peer, const View& next) const;
  bool Recent(int64_t at) const { return now_ - at < config_.peer_timeout_ns; }
  uint32_t joining_incarnation() const {
    return std::max(view_.id ? incarnation_ + 1 : incarnation_, least_incarnation_);
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
  std::vector<uint64_t> alive_;  // while links are looked at
  Role role_ = Role::kJoining;   // in view_
  uint32_t incarnation_;
  uint32_t least_incarnation_ = 0;  // others know of the one before
  bool synced_ = false, drained_ = false, left_ = false, delivered_ = false;
  bool changed_ = false, reset_ = false;
  uint64_t clock_ = 0;

  NodeStatus::Intent intent_ = NodeStatus::Intent::kNone;
  ViewId target_;
  Rank target_rank_;
  bool target_stays_ = false;  // is not about to join another in turn
  int64_t target_heard_at_ = 0;

  ViewId promised_;         // nothing below it will be accepted
  uint32_t max_epoch_ = 0;  // of the views heard of and the promise given
  bool proposing_ = false, proposed_to_all_ = false;
  uint16_t propose_next_ = 0;  // the first node that this round has not asked yet
  int64_t proposed_at_ = 0, propose_due_ = 0, next_proposal_at_ = 0;
  bool accept_due_ = false;
  uint16_t accept_to_ = 0;

  bool may_bootstrap_ = true;
  bool started_ = false;
  int64_t now_ = 0, started_at_ = 0, heartbeat_due_ = 0;
  uint64_t heartbeats_ = 0;  // sent
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_MEMBERSHIP_H_
