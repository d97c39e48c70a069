// Merged weights, as tests and snapshots use them, in simulated clusters. On a node that trains
// they never hold progress that the chunk's master lacks.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "segment/merged_reader.h"
#include "test/sim/cluster.h"
#include "test/support/support.h"

namespace millrace::sim {
namespace {

std::vector<float> Merged(Cluster* cluster, uint16_t node) {
  std::vector<float> merged = (*cluster)[node].weights;
  MergedReader reader(&cluster->exchange(node), (*cluster)[node].executor.get());
  reader.Begin(merged.data());
  while (reader.Step()) {
  }
  EXPECT_TRUE(reader.End());
  return merged;
}

TEST(MergedWeights, LeaveOutWhatWasNotExchanged) {
  Cluster cluster({.nodes = 3, .seed = test::Seed()});
  for (uint16_t node = 0; node < 3; ++node) {
    for (float& weight : cluster[node].weights) weight = 1.0f + node;
  }
  for (uint16_t node = 0; node < 3; ++node) {
    const std::vector<float> merged = Merged(&cluster, node);
    for (size_t i = 0; i < merged.size(); ++i) {
      const bool masters = cluster.owner(static_cast<uint32_t>(i / 10)) == node;
      EXPECT_EQ(merged[i], masters ? 1.0f + node : 0.0f) << "node " << node << ", weight " << i;
    }
  }
}

// For weights that only grow, merged weights never exceed the master's and never decrease.
TEST(MergedWeights, HoldNoMoreThanTheMasterUnderLoss) {
  for (uint64_t round = 0; round < 20; ++round) {
    ClusterOptions options{.nodes = static_cast<uint16_t>(2 + round % 4)};
    options.seed = test::Seed() + round;
    options.damping = round % 2 == 1;
    options.faults = {.loss = 0.05, .duplicate = 0.05, .delay_max = 5};
    Cluster cluster(options);
    Rng rng(options.seed, {11});
    std::vector<std::vector<float>> before(options.nodes);
    int64_t unmerged = 0;
    for (int tick = 0; tick < 200; ++tick) {
      cluster.Tick([&](uint16_t, std::vector<float>& weights) {
        weights[rng.Below(weights.size())] += static_cast<float>(1 + rng.Below(3));
      });
      for (uint16_t node = 0; node < options.nodes; ++node) {
        const std::vector<float> merged = Merged(&cluster, node);
        for (size_t i = 0; i < merged.size(); ++i) {
          const uint16_t owner = cluster.owner(static_cast<uint32_t>(i / options.chunk_floats));
          ASSERT_LE(merged[i], cluster[owner].weights[i] + (options.damping ? 1e-3f : 0.0f))
              << "node " << node << ", weight " << i;
          if (!before[node].empty()) {
            ASSERT_GE(merged[i], before[node][i] - 1e-3f);
          }
          unmerged += merged[i] != cluster[node].weights[i];
        }
        before[node] = merged;
      }
    }
    EXPECT_GT(unmerged, 0);
    cluster.Flush();
    for (uint16_t node = 0; node < options.nodes; ++node) {
      EXPECT_EQ(Merged(&cluster, node), cluster[node].weights) << "node " << node;
    }
  }
}

}  // namespace
}  // namespace millrace::sim
