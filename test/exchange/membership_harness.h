// Nodes that agree on views, and nothing else: Membership objects joined directly. What
// one says in a tick the others hear in the next, unless a test loses it.
#ifndef MILLRACE_TEST_EXCHANGE_MEMBERSHIP_HARNESS_H_
#define MILLRACE_TEST_EXCHANGE_MEMBERSHIP_HARNESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exchange/protocol/membership.h"

namespace millrace::test {

// The bytes of a frame; sets the header's lengths. `report`: a heartbeat's, of a node that
// hears all unless it is given.
std::vector<std::byte> Framed(FrameHeader header, std::span<const std::byte> payload,
                              std::span<const std::byte> report = {});

class Members {
 public:
  struct Node {
    std::unique_ptr<Membership> membership;  // null: not running
    std::vector<std::vector<std::byte>> inbox;
    uint64_t clock = 0;
    uint64_t clock_at_reset = 0;
    bool frozen = false;       // neither takes nor says anything
    bool gets_synced = true;   // as soon as it is a member
    bool gets_drained = true;  // as soon as it is leaving
    int resets = 0;
  };

  explicit Members(uint16_t count) : nodes_(count) {}

  Node& operator[](size_t i) { return nodes_[i]; }
  Membership& of(size_t i) { return *nodes_[i].membership; }
  const View& view(size_t i) { return of(i).view(); }
  size_t size() const { return nodes_.size(); }

  void Start(uint16_t node, uint32_t incarnation = 1);
  void StartAll();
  void Kill(uint16_t node) { nodes_[node] = {}; }
  void Work(uint16_t node, uint64_t iterations);

  uint16_t max_members = 0;  // MembershipConfig's, of those that start from now on

  // Whether a frame reaches a node; all do unless this is set. Every frame is one of the
  // largest.
  std::function<bool(uint16_t from, uint16_t to, FrameType type)> delivers;

  // One tick of 1 ms: heartbeats are due every 8, silence is death after 60, and a
  // node alone founds after 40. Checks what holds at any time (Check).
  void Tick();
  void Run(int ticks);
  // All that run are synced members of one view that has nobody else.
  bool Agree();
  // For people: who is in which view.
  std::string Describe() const;
  // The bytes of the last frame of a type that a node has sent.
  std::map<std::pair<uint16_t, FrameType>, std::vector<std::byte>> last;
  void Give(uint16_t to, const std::vector<std::byte>& frame);

 private:
  void Hear(Node& node, const std::vector<std::byte>& bytes);
  void Say(uint16_t from);
  void Check(uint16_t id);
  int64_t now() const { return tick_ * 1'000'000; }

  std::vector<Node> nodes_;
  int64_t tick_ = 0;
  // By those who formed them, in which life: one that has forgotten all may name its
  // views as it did before.
  std::map<std::pair<ViewId, uint32_t>, std::vector<Member>> committed_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_EXCHANGE_MEMBERSHIP_HARNESS_H_
