// Membership state machines without exchanges, joined by a simulated network. Without link faults,
// a message that is sent in one tick (1 ms) arrives in the next.
#ifndef MILLRACE_TEST_SIM_MEMBERSHIP_CLUSTER_H_
#define MILLRACE_TEST_SIM_MEMBERSHIP_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exchange/protocol/membership.h"
#include "test/sim/network.h"

namespace millrace::sim {

// Encodes a frame and sets the header's lengths. `report` is the link report of a heartbeat; by
// default its sender receives frames from all nodes.
FrameBytes EncodeMembership(FrameHeader header, std::span<const std::byte> payload,
                            std::span<const std::byte> report = {});

class MembershipCluster {
 public:
  struct Node {
    std::unique_ptr<Membership> membership;  // null: not running
    uint64_t clock = 0;
    uint64_t clock_at_reset = 0;
    bool frozen = false;       // neither receives nor sends
    bool gets_synced = true;   // as soon as it is a member
    bool gets_drained = true;  // as soon as it is leaving
    int resets = 0;
  };

  explicit MembershipCluster(uint16_t count, uint64_t seed = 0);
  // Returns a cluster whose nodes started at the same time and are in one view.
  static std::unique_ptr<MembershipCluster> Agreed(uint16_t count);

  Node& operator[](size_t i) { return nodes_[i]; }
  Membership& of(size_t i) { return *nodes_[i].membership; }
  const View& view(size_t i) { return of(i).view(); }
  Network& network() { return network_; }
  int64_t tick() const { return tick_; }

  void Start(uint16_t node, uint32_t incarnation = 1);
  void StartAll();
  void Kill(uint16_t node) { nodes_[node] = {}; }
  void Work(uint16_t node, uint64_t iterations);

  uint16_t max_members = 0;  // MembershipConfig::max_members of nodes started from now on

  // Returns true if a frame reaches a node; unset: all frames arrive. Every frame counts as one
  // of the largest.
  std::function<bool(uint16_t from, uint16_t to, FrameType type)> delivers;

  // Heartbeats are due every 8 ticks, the peer timeout is 60 and the bootstrap delay 40 ticks.
  // Throws Error if a view is not the same on all its members, was not installed first by its
  // coordinator, or does not contain a node that is in it.
  void Tick();
  void Run(int ticks);
  // Returns true if all running nodes are synced members of one view that has no other members.
  bool Agree();
  // Each node's view, in readable form.
  std::string Describe() const;
  // The last frame of each type that a node has sent.
  std::map<std::pair<uint16_t, FrameType>, FrameBytes> last;
  void Give(uint16_t to, const FrameBytes& frame);

 private:
  void Send(uint16_t from);
  void Check(uint16_t id);
  int64_t now() const { return tick_ * 1'000'000; }

  Network network_;
  std::vector<Node> nodes_;
  int64_t tick_ = 0;
  // Views by id and by their coordinator's incarnation: a coordinator that has lost its memory
  // may use view ids again.
  std::map<std::pair<ViewId, uint32_t>, std::vector<Member>> committed_;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_MEMBERSHIP_CLUSTER_H_
