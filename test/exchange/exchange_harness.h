// Connects exchanges directly, in lockstep: frames sent in one tick arrive in the next, unless
// the test drops them.
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
  size_t room = 256;  // maximum frames per call of Send
};

ExchangeConfig HarnessConfig(const ExchangeHarnessOptions& options, uint16_t node);

class ExchangeHarness {
 public:
  struct Node : ExchangeNode {
    std::vector<FrameBytes> arrivals;
    bool stopped = false;           // neither receives nor sends
    bool woken = false;             // has made progress
    bool stuck = false;             // its transport accepts nothing
    std::vector<PostedFrame> held;  // frames that wait for the transport
  };

  explicit ExchangeHarness(const ExchangeHarnessOptions& options);

  Node& operator[](size_t i) { return nodes_[i]; }
  Exchange& exchange(size_t i) { return *nodes_[i].exchange; }
  size_t size() const { return nodes_.size(); }
  int64_t now() const { return tick_ * kTickNs; }

  // Returns true if a frame reaches a node. Called for every frame; unset: all frames arrive.
  std::function<bool(uint16_t to, const FrameBytes& frame)> delivers;

  // Called before and after each call of Receive and of Send.
  std::function<void()> entering = [] {}, leaving = [] {};
  // Runs nodes only on frames, on progress and at their NextEvent.
  bool sleeps = false;

  // Sets the maximum number of frames per call of Send.
  void SetRoom(size_t room) { room_.resize(room); }

  // Adds to one weight of a node, like a solver step.
  void Add(size_t node, int64_t weight, float value);
  // A solver step that adds 1 to each weight of the node.
  void Step(size_t node);
  void Tick();
  void Run(int ticks);
  // Runs until all running nodes are in one view, in sync and quiescent. Fails the test after
  // 3000 ticks.
  void Settle();
  // Returns a harness in which every node has joined and is quiescent.
  static std::unique_ptr<ExchangeHarness> Ready(const ExchangeHarnessOptions& options);

  // A frame as `from` would send it.
  FrameBytes Forge(uint16_t from, FrameHeader header, std::span<const std::byte> acks,
                   std::span<const std::byte> payload) const;
  // A header with every field set that does not depend on the frame's content.
  FrameHeader HeaderOf(uint16_t from, uint16_t to, FrameType type) const;
  // A float32 diff.
  FrameBytes ForgeDiff(uint16_t from, uint16_t to, uint32_t chunk, uint32_t seq,
                       const std::vector<float>& values) const;
  void Give(size_t node, const FrameBytes& frame);
  // Number of positions that a node has sent.
  uint64_t positions_sent(size_t node);
  uint16_t owner(uint32_t chunk) { return exchange(0).table().chunks[chunk].owner; }
  // Returns a chunk that `node` masters.
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
