// Exchanges joined directly, in lockstep: what one sends in a tick the others take in
// the next, unless a test loses it.
#ifndef MILLRACE_TEST_EXCHANGE_EXCHANGE_HARNESS_H_
#define MILLRACE_TEST_EXCHANGE_EXCHANGE_HARNESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "test/support/exchange_node.h"

namespace millrace::test {

struct ExchangeHarnessOptions {
  uint16_t nodes = 2;
  int64_t size = 60, chunk_floats = 10;
  CodecConfig codec = {};
  uint32_t slots = 64;
  bool direct = false;
  bool damping = false, passes_all_on = false;
  size_t room = 256;  // frames that Send may make at a time
};

ExchangeConfig HarnessConfig(const ExchangeHarnessOptions& options, uint16_t node);

class ExchangeHarness {
 public:
  struct Node : ExchangeNode {
    std::vector<FrameBytes> inbox;
    bool stopped = false;           // takes and sends nothing
    bool woken = false;             // has made progress
    bool stuck = false;             // its transport takes nothing
    std::vector<PostedFrame> held;  // that wait for it
  };

  explicit ExchangeHarness(const ExchangeHarnessOptions& options);

  Node& operator[](size_t i) { return nodes_[i]; }
  Exchange& exchange(size_t i) { return *nodes_[i].exchange; }
  size_t size() const { return nodes_.size(); }
  int64_t now() const { return tick_ * kTickNs; }

  // Whether a frame reaches a node; all do unless this is set. Sees every frame.
  std::function<bool(uint16_t to, const FrameBytes& frame)> delivers;

  // Called before and after each call of Receive and of Send.
  std::function<void()> entering = [] {}, leaving = [] {};
  // Nodes are only woken by frames, by progress and at their NextEvent.
  bool sleeps = false;

  // From now on, how many frames Send may make at a time.
  void SetRoom(size_t room) { room_.resize(room); }

  // Adds to one weight of a node, as a step of its solver does.
  void Add(size_t node, int64_t weight, float value);
  // A step that adds 1 to each of its weights.
  void Step(size_t node);
  void Tick();
  void Run(int ticks);
  // Until all that run are in one view, in sync and quiescent; fails the test if
  // they are not soon.
  void Settle();
  // Waits until every node has joined, with nothing left to say.
  static std::unique_ptr<ExchangeHarness> Ready(const ExchangeHarnessOptions& options);

  // A frame such as `from` would send.
  FrameBytes Forge(uint16_t from, FrameHeader header, std::span<const std::byte> acks,
                   std::span<const std::byte> payload) const;
  // The header of one, with all that does not depend on what it says.
  FrameHeader HeaderOf(uint16_t from, uint16_t to, FrameType type) const;
  // A float32 diff.
  FrameBytes ForgeDiff(uint16_t from, uint16_t to, uint32_t chunk, uint32_t seq,
                       const std::vector<float>& values) const;
  void Give(size_t node, const FrameBytes& frame);
  // Frames with positions that a node has made.
  uint64_t positions_sent(size_t node);
  uint16_t owner(uint32_t chunk) { return exchange(0).table().chunks[chunk].owner; }
  // A chunk that `node` masters.
  uint32_t ChunkOf(uint16_t node);

 private:
  bool Settled() const;
  void Collect(size_t node);

  const ExchangeHarnessOptions options_;
  std::vector<Node> nodes_;
  std::vector<PostedFrame> room_;
  int64_t tick_ = 0;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_EXCHANGE_EXCHANGE_HARNESS_H_
