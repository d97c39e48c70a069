// Model of a cluster whose nodes leave, on a clock that the test advances. Each node has its own
// NodeLife; the model replaces the exchange and its view changes.
#ifndef MILLRACE_TEST_SIM_LEAVING_CLUSTER_H_
#define MILLRACE_TEST_SIM_LEAVING_CLUSTER_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "cluster/node_life.h"
#include "test/sim/fake_peers.h"
#include "test/sim/gossip_board.h"
#include "test/sim/network.h"
#include "test/support/fake_clock.h"

namespace millrace::sim {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Nodes of one segment with one common view. The view changes as in the exchange: a node that has
// handed over is removed once all members agree; dead members never agree. The last member stays.
class LeavingCluster {
 public:
  struct Node {
    int64_t signal_ns = kNever;
    int64_t solvers_end_ns = kNever;  // not before the signal
    int64_t died_ns = kNever;
    int64_t hand_over_ns = 50 * kMs;  // duration of the handover

    int64_t asked_ns = kNever, left_ns = kNever;  // request to leave; removal from the view
    int64_t over_ns = kNever;                     // end of the wait
    bool begun = false, last = false;
    std::unique_ptr<FakePeers> peers;
    std::unique_ptr<NodeLife> life;
  };

  explicit LeavingCluster(int count) : network_(0, count), nodes_(count) {
    set_delay_ms(5);
    gossip_.carries = [this](NodeId from, NodeId to) { return Reaches(from, to); };
    for (int i = 0; i < count; ++i) view_.insert(i);
    for (int i = 0; i < count; ++i) {
      nodes_[i].peers = std::make_unique<FakePeers>(static_cast<NodeId>(i), &gossip_);
      SetPeers(i);
      nodes_[i].life = std::make_unique<NodeLife>(
          nodes_[i].peers.get(), std::span<const float>(), std::vector<PeerLabel>(count),
          [this, i] { return SignalOf(i); }, &clock_);
      nodes_[i].life->PollJoin();
    }
  }
  Node& node(int i) { return nodes_[i]; }
  // SIGINT arrives in `ms`, during an iteration that ends `iteration_ms` later.
  void Stop(int i, int64_t ms = 0, int64_t iteration_ms = 10) {
    nodes_[i].signal_ns = Now() + ms * kMs;
    nodes_[i].solvers_end_ns = nodes_[i].signal_ns + iteration_ms * kMs;
  }

  void Run(int64_t ms) {
    for (const int64_t end = Now() + ms * kMs; Now() < end; clock_.AdvanceNs(5 * kMs)) {
      ChangeView();
      for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) Step(i);
    }
  }
  // Milliseconds from the signal to the end of the node's wait; -1 if it still waits.
  int64_t MsAfterSignal(int i) const {
    return nodes_[i].over_ns == kNever ? -1 : (nodes_[i].over_ns - nodes_[i].signal_ns) / kMs;
  }
  std::vector<int> Last() const {
    std::vector<int> last;
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      if (nodes_[i].last) last.push_back(i);
    }
    return last;
  }

  int64_t Now() const { return clock_.NowNs(); }
  // Time that a gossip message takes to reach another node.
  void set_delay_ms(int64_t ms) { gossip_.delay_ns = ms * kMs; }
  // See Network.
  void Partition(uint64_t mask) { network_.Partition(mask); }

 private:
  // Delay until a dead node is removed from the view.
  static constexpr int64_t kSuspectNs = 2'000 * kMs;

  bool Dead(int i) const { return Now() >= nodes_[i].died_ns; }
  bool Stopped(int i) const { return Now() >= nodes_[i].signal_ns; }
  bool Reaches(int from, int to) const {
    return network_.Carries(static_cast<NodeId>(from), static_cast<NodeId>(to), 0);
  }

  void SetPeers(int i) {
    FakePeers& peers = *nodes_[i].peers;
    peers.on_responsive = [this, i](Recency recency) { return Responsive(i, recency); };
    peers.on_is_leader = [this, i] { return Leader() == i; };
    peers.on_has_dependents = [this, i] { return view_.size() > 1 && Leader() == i; };
    peers.on_alone = [this, i] { return view_ == std::set<int>{i}; };
    peers.on_left = peers.on_delivered = [this, i] { return nodes_[i].left_ns <= Now(); };
    peers.on_idle = [] { return false; };
    peers.on_members = [this] { return static_cast<uint32_t>(view_.size()); };
    peers.on_leave = [this, i] { nodes_[i].asked_ns = Now(); };
  }
  std::optional<int64_t> SignalOf(int i) const {
    return Stopped(i) ? std::optional(nodes_[i].signal_ns) : std::nullopt;
  }
  int Leader() const {
    const auto stays = [this](int i) { return nodes_[i].asked_ns == kNever; };
    const auto found = std::find_if(view_.begin(), view_.end(), stays);
    return found == view_.end() ? *view_.begin() : *found;
  }
  std::vector<NodeId> Responsive(int i, Recency recency) const {
    std::vector<NodeId> nodes;
    for (int k = 0; k < static_cast<int>(nodes_.size()); ++k) {
      const int64_t spoke = std::min({Now(), nodes_[k].died_ns, nodes_[k].over_ns});
      const int64_t most = recency == Recency::kLately ? kSuspectNs / 2 : kSuspectNs;
      if (k != i && Reaches(k, i) && Now() - spoke < most) nodes.push_back(static_cast<NodeId>(k));
    }
    return nodes;
  }
  void ChangeView() {
    std::erase_if(view_, [this](int i) {
      const int64_t gone = std::min(nodes_[i].died_ns, nodes_[i].over_ns);
      return gone != kNever && !nodes_[i].last && Now() >= gone + kSuspectNs;
    });
    const bool agree = std::none_of(view_.begin(), view_.end(), [this](int i) {
      return Dead(i) || (nodes_[i].over_ns != kNever && !nodes_[i].last) ||
             !Reaches(i, *view_.begin());
    });
    for (int i = static_cast<int>(nodes_.size()) - 1; i >= 0 && agree; --i) {
      Node& node = nodes_[i];
      const bool awaiting_master =
          node.asked_ns != kNever && Now() - node.asked_ns >= node.hand_over_ns;
      if (!awaiting_master || !view_.contains(i) || view_.size() == 1 || Leader() == i) continue;
      view_.erase(i);
      node.left_ns = Now();
    }
  }
  void Step(int i) {
    Node& node = nodes_[i];
    if (Dead(i) || node.over_ns != kNever) return;
    if (!node.begun && Stopped(i)) node.life->PublishStopped();
    if (!node.begun && Now() >= node.solvers_end_ns) {
      node.begun = true;
      node.life->BeginLeave(Stopped(i) ? LeaveReason::kStopped : LeaveReason::kEnd);
    }
    if (!node.begun || !node.life->PollLeave()) return;
    node.over_ns = Now();
    node.last = node.life->last();
  }

  test::FakeClock clock_;
  GossipBoard gossip_{&clock_};
  Network network_;
  std::vector<Node> nodes_;
  std::set<int> view_;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_LEAVING_CLUSTER_H_
