// Members that take the mean of their progress.
#include <gtest/gtest.h>

#include "test/sim/cluster.h"
#include "test/support/support.h"

namespace millrace::sim {
namespace {

ClusterOptions Averaging(uint16_t nodes) {
  ClusterOptions options{.nodes = nodes};
  options.rule.name = "average";
  return options;
}

TEST(Average, IsThatOfAllMembersWhoeverMastersAWeight) {
  Cluster cluster(Averaging(4));
  const size_t size = cluster[0].weights.size();
  for (size_t node = 0; node < 4; ++node) {
    for (size_t i = 0; i < size; ++i) cluster[node].weights[i] += static_cast<float>(node);
    cluster.Add(node, 0, 0);
  }
  cluster.Flush();
  for (size_t node = 0; node < 4; ++node) {
    EXPECT_EQ(cluster[node].weights, std::vector<float>(size, (0 + 1 + 2 + 3) / 4.0f)) << node;
  }
}

// Node i makes progress of i in each weight. Returns what all nodes have afterwards.
float MeanWhere(std::vector<uint32_t> examples) {
  ClusterOptions options = Averaging(static_cast<uint16_t>(examples.size()));
  options.examples = std::move(examples);
  Cluster cluster(options);
  cluster.Run(3 * options.peer_timeout_ticks);  // each node has heartbeats of all others
  const size_t size = cluster[0].weights.size();
  for (size_t node = 0; node < cluster.size(); ++node) {
    for (size_t i = 0; i < size; ++i) cluster[node].weights[i] += static_cast<float>(node);
    cluster.Add(node, 0, 0);
  }
  cluster.Flush();
  for (size_t node = 0; node < cluster.size(); ++node) {
    EXPECT_EQ(cluster[node].weights, std::vector<float>(size, cluster[0].weights[0])) << node;
  }
  return cluster[0].weights[0];
}

TEST(Average, WeighsMembersByTheirExamples) {
  EXPECT_FLOAT_EQ(MeanWhere({32, 64, 160}), (0 * 32 + 1 * 64 + 2 * 160) / 256.0f);
  EXPECT_FLOAT_EQ(MeanWhere({160, 64, 32}), (0 * 160 + 1 * 64 + 2 * 32) / 256.0f);
}

TEST(Average, IsEqualWhereExamplesAreEqualOrUnknown) {
  EXPECT_EQ(MeanWhere({64, 64, 64}), MeanWhere({0, 0, 0}));
  EXPECT_EQ(MeanWhere({64, 0, 16}), MeanWhere({0, 0, 0}));
}

TEST(Average, LetsNoNumberOfExamplesExcludeTheOthers) {
  // The others count as a sixteenth of it.
  EXPECT_FLOAT_EQ(MeanWhere({UINT32_MAX, 1, 1}), (0 * 16 + 1 + 2) / 18.0f);
}

// A node's own steps stay in its weights until they are merged, then a share of them does.
TEST(Average, HoldsAMastersOwnProgressUntilItsPosition) {
  Cluster cluster(Averaging(2));
  const uint32_t chunk = cluster.ChunkOf(0);
  const auto weight = static_cast<int64_t>(chunk) * 10;
  cluster.Add(0, weight, 8);
  EXPECT_EQ(cluster[0].weights[weight], 8);
  EXPECT_EQ(cluster[1].weights[weight], 0);
  cluster.Flush();
  EXPECT_EQ(cluster[0].weights[weight], 4);
  EXPECT_EQ(cluster[1].weights[weight], 4);
}

TEST(Average, CountsInFullWhatANodeDoesAlone) {
  ClusterOptions options = Averaging(2);
  options.joined = false;
  Cluster cluster(options);
  cluster[1].stopped = true;
  cluster.Settle();
  for (int step = 0; step < 8; ++step) cluster.Step(0);
  cluster.Settle();
  cluster[1].stopped = false;
  cluster.Settle();
  EXPECT_EQ(cluster[0].weights, std::vector<float>(cluster[0].weights.size(), 8));
  EXPECT_EQ(cluster[1].weights, cluster[0].weights);
}

}  // namespace
}  // namespace millrace::sim
