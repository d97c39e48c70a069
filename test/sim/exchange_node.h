// One node of a simulation that drives an exchange.
#ifndef MILLRACE_TEST_SIM_EXCHANGE_NODE_H_
#define MILLRACE_TEST_SIM_EXCHANGE_NODE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/threads/range_lock.h"
#include "exchange/kernels/rules/merge_rule_registry.h"
#include "exchange/protocol/exchange.h"
#include "test/sim/network.h"
#include "test/support/fake_executor.h"

namespace millrace::sim {

inline constexpr int64_t kTickNs = 1'000'000;

// Settings for which a node bootstraps after 40 ticks alone, and the peer timeout is 60 ticks.
ExchangeConfig TickConfig();

// Number of frames that an exchange has sent, without heartbeats and membership frames.
uint64_t ExchangeFrames(const Exchange& exchange);

// Ticks between two calls of ThrottleAtRandom for an exchange.
inline constexpr int64_t kThrottleTicks = 32;
// Throttles the exchange with this probability, or ends its throttling. While solvers train, half
// of the calls space its positions; Pace spaces them only then.
void ThrottleAtRandom(double probability, bool training, Rng rng, Exchange* exchange);

// A view in readable form.
std::string ViewText(const View& view);

// A node's end of a segment: an exchange, and its arrays beside the node's weights. It does not run
// until Start is called.
struct ExchangeEnd {
  NodeId node = 0;
  std::vector<float> base, pending, rule_state;
  // By weight: progress that the exchange has dropped: with damping or a rest distance at the end
  // of training, otherwise 0. What a joining node had is counted too.
  std::vector<double> dropped;
  std::unique_ptr<ChunkExecutor> executor;
  std::unique_ptr<Exchange> exchange;

  // (Re)starts the end. `weights`, and `locks` unless null, have to outlive it. `fake` decorates
  // the executor.
  void Start(const ExchangeConfig& config, std::span<float> weights, int64_t chunk_floats,
             RangeLock* locks = nullptr, const test::FakeExecutorOptions& fake = {},
             const MergeRuleConfig& rule = {});
  // Passes the frames that have arrived at the node to its exchange.
  void Receive(Network* network, int64_t tick);
  // Sends the frames of the exchange, at most as many as `room` holds.
  void Send(Network* network, std::span<PostedFrame> room, int64_t tick);
};

// A node's weights and their lock. The first base of a node, so that its ends are destroyed before.
struct NodeWeights {
  std::vector<float> weights;
  std::unique_ptr<RangeLock> locks;  // of the weights
};

// A node in a single segment.
struct ExchangeNode : NodeWeights, ExchangeEnd {
  uint64_t iterations = 0;

  // (Re)starts the node with weights of zero.
  void Start(const ExchangeConfig& config, int64_t size, int64_t chunk_floats,
             const test::FakeExecutorOptions& fake = {}, const MergeRuleConfig& rule = {});
};

// Bytes of frames, as an exchange takes them. `Frame` has view().
template <typename Frame>
std::vector<std::span<const std::byte>> ViewsOf(const std::vector<Frame>& frames) {
  std::vector<std::span<const std::byte>> views;
  for (const Frame& frame : frames) views.push_back(frame.view());
  return views;
}

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_EXCHANGE_NODE_H_
