// A leaving node announces it in its next heartbeat, not in one heartbeat per pass.
#include <gtest/gtest.h>

#include "test/sim/segment_cluster.h"

namespace millrace::test {
namespace {

using sim::SegmentCluster;

constexpr int64_t kWeights = 100'000, kStride = 100;

class Leaving : public testing::TestWithParam<double> {};

TEST_P(Leaving, SendsNoMoreHeartbeatsThanItsPaceAndAFewAtOnce) {
  NetSegmentConfig config;
  config.max_bytes_per_second = GetParam();
  SegmentCluster nodes(3, kWeights, config);
  nodes.StartAll();
  for (int i = 0; i < 100; ++i) {
    for (int node = 0; node < 3; ++node) {
      for (int64_t k = 0; k < kWeights; k += kStride) nodes.Add(node, k, 1);
      nodes.Iterate(node, 1);
    }
    nodes.Pass();
  }
  const SegmentState& state = nodes.net(1).state();
  const auto heartbeats = [&] {
    return nodes.net(1).metrics().exchange().sent[static_cast<size_t>(FrameType::kHeartbeat)];
  };
  const uint64_t before = heartbeats();
  const int64_t begin = nodes.now();
  nodes.net(1).state().RequestLeave();
  for (int i = 0; i < 400'000 && !state.left(); ++i) nodes.Pass();
  ASSERT_TRUE(state.left());
  EXPECT_TRUE(state.delivered());
  const int64_t due = (nodes.now() - begin) / nodes.net(1).heartbeat_ns();
  // Immediate heartbeats: the leave, each of a few views, and the drained state.
  EXPECT_LE(heartbeats() - before, static_cast<uint64_t>(due) + 6);
}

INSTANTIATE_TEST_SUITE_P(Rates, Leaving, testing::Values(0.0, 2.5e6, 5e5));

}  // namespace
}  // namespace millrace::test
