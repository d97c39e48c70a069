// Nodes of one segment, joined by a simulated network. They run in lockstep: without link faults, a
// frame that is sent in one tick arrives in the next. The test makes the solvers' progress, and may
// drop, alter and forge frames.
#ifndef MILLRACE_TEST_SIM_CLUSTER_H_
#define MILLRACE_TEST_SIM_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "test/sim/exchange_node.h"
#include "test/sim/network.h"

namespace millrace::sim {

struct ClusterOptions {
  uint16_t nodes = 2;
  int64_t size = 60, chunk_floats = 10;
  CodecConfig codec = {};
  Codec position_codec = Codec::kFloat32;
  double position_share = kPositionShare;
  uint32_t slots = 64;
  bool direct = false;
  bool damping = false, passes_all_on = false;
  LinkFaults faults = {.rate = 256};
  uint64_t seed = 0;
  int64_t peer_timeout_ticks = 60;
  double bytes_per_second = 0;  // ExchangeConfig::bytes_per_second
  MergeRuleConfig rule = {};
  std::vector<uint32_t> examples = {};  // ExchangeConfig::examples, by node; empty: 0 of each
  bool joined = true;                   // the constructor returns when all nodes have joined
};

// The configuration of a node of such a cluster.
ExchangeConfig ConfigOf(const ClusterOptions& options, uint16_t node);

class Cluster {
 public:
  struct Node : ExchangeNode {
    bool stopped = false;           // neither receives nor sends
    bool stuck = false;             // its transport accepts nothing
    bool woken = false;             // has made progress
    uint64_t unmerged = 0;          // iterations whose progress the weights lack
    std::vector<PostedFrame> held;  // frames that wait for the transport
  };

  explicit Cluster(const ClusterOptions& options);
  Cluster(const Cluster&) = delete;

  Node& operator[](size_t i) { return nodes_[i]; }
  Exchange& exchange(size_t i) { return *nodes_[i].exchange; }
  Network& network() { return network_; }
  size_t size() const { return nodes_.size(); }
  int64_t chunks() const { return nodes_[0].executor->arrays().chunks(); }
  uint16_t owner(uint32_t chunk) { return exchange(0).table().chunks[chunk].owner; }
  // Returns a chunk that `node` masters. Throws Error if there is none.
  uint32_t ChunkOf(uint16_t node);
  int64_t tick() const { return tick_; }
  int64_t now() const { return tick_ * kTickNs; }

  // See Network: called for every frame and receiver, if set.
  decltype(Network::delivers)& delivers = network_.delivers;
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

  // The progress of a node's solver in one tick.
  using SolverStep = std::function<void(uint16_t node, std::vector<float>& weights)>;
  // Advances one tick. In it each node makes a `step`, which counts as `iterations`; without
  // `step`, no node makes progress.
  void Tick(const SolverStep& step = nullptr, uint64_t iterations = 1);
  void Run(int64_t ticks);
  // Lets time pass in which no node runs.
  void Sleep(int64_t ticks) { tick_ += ticks; }
  // Runs until all running nodes are in one view, in sync and quiescent. Throws Error after 4000
  // ticks.
  void Settle();
  // Ends training: nodes send or drop the progress that they hold back. Then settles.
  void Flush();
  // Frames sent so far, without heartbeats and membership frames.
  uint64_t frames() const;
  // Number of positions that a node has sent.
  uint64_t positions_sent(size_t node) {
    return exchange(node).stats().sent[static_cast<size_t>(FrameType::kPosition)];
  }

  // A header with every field set that does not depend on the frame's content.
  FrameHeader HeaderOf(uint16_t from, uint16_t to, FrameType type) const;
  // A frame as `from` would send it.
  static FrameBytes Forge(uint16_t from, FrameHeader header, std::span<const std::byte> acks,
                          std::span<const std::byte> payload);
  // A float32 diff.
  FrameBytes ForgeDiff(uint16_t from, uint16_t to, uint32_t chunk, uint32_t seq,
                       const std::vector<float>& values) const;
  void Give(size_t node, const FrameBytes& frame);

 private:
  bool Settled() const;
  void Pass(uint16_t node, const SolverStep& step, uint64_t iterations);

  const ClusterOptions options_;
  Network network_;
  std::vector<Node> nodes_;
  std::vector<PostedFrame> room_;
  int64_t tick_ = 0;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_CLUSTER_H_
