#include "segment/merged_reader.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "exchange/kernels/stream_executor.h"
#include "test/sim/exchange_node.h"
#include "test/sim/segment_cluster.h"
#include "test/support/emulated_launcher.h"
#include "test/support/fake_device.h"
#include "test/support/fake_executor.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using sim::SegmentCluster;

// The master of a weight, one of two nodes.
int MasterOf(SegmentCluster* segment, int64_t i) {
  const auto chunk = static_cast<size_t>(i / segment->net(0).chunk_floats());
  return segment->net(0).exchange().table().chunks[chunk].owner;
}

// Makes passes until the request has ended; returns their number.
int PassUntilRead(SegmentCluster* segment, int node) {
  int passes = 0;
  for (; passes < 1000 && !segment->net(node).merged().Wait(0); ++passes) segment->Pass();
  EXPECT_TRUE(segment->net(node).merged().End());
  return passes;
}

TEST(MergedReader, ReadsInPortionsWhileTheSegmentGoesOn) {
  constexpr int64_t kFloats = 3 << 20;  // 12 MiB, half of it mastered by the peer
  NetSegmentConfig config;
  config.chunk_floats = 2048;
  SegmentCluster segment(2, kFloats, config);
  segment.StartAll();
  segment.Run(100);
  for (const int64_t i : {int64_t{0}, kFloats / 2, kFloats - 1}) segment.Add(1, i, 1);
  std::vector<float> merged(kFloats, -1.0f);
  segment.net(1).merged().Begin(merged.data());
  const int passes = PassUntilRead(&segment, 1);
  EXPECT_GE(passes, 6);
  EXPECT_LE(passes, 12);
  for (int64_t i = 0; i < kFloats; ++i) {
    ASSERT_EQ(merged[i], MasterOf(&segment, i) == 1 ? -1.0f : 0.0f) << i;
  }
  EXPECT_TRUE(segment.Together());
}

TEST(MergedReader, AsksForAnotherPassAtOnceWhileThereIsMore) {
  constexpr int64_t kFloats = 2 << 20;
  SegmentCluster segment(2, kFloats);
  segment.StartAll();
  segment.Run(100);
  std::vector<float> merged(kFloats);
  segment.net(1).merged().Begin(merged.data());
  segment.Pass();
  EXPECT_TRUE(segment.last().at_once);
  PassUntilRead(&segment, 1);
  segment.Run(10);
  EXPECT_FALSE(segment.last().at_once);
}

TEST(MergedReader, WritesNothingAfterTheEndOfARequest) {
  NetSegmentConfig config;
  config.chunk_floats = 50;
  SegmentCluster segment(2, 1000, config);
  segment.StartAll();
  std::vector<float> merged(1000, -1.0f);
  MergedReader& reader = segment.net(1).merged();
  reader.Begin(merged.data());
  EXPECT_FALSE(reader.Wait(1));
  EXPECT_FALSE(reader.End());
  segment.Run(10);
  EXPECT_EQ(merged, std::vector<float>(1000, -1.0f));
  reader.Begin(merged.data());  // the reader serves the next request
  PassUntilRead(&segment, 1);
  EXPECT_NE(merged, std::vector<float>(1000, -1.0f));
}

TEST(MergedReader, KnowsNothingBeforeTheFirstPosition) {
  sim::ExchangeNode node;
  node.Start(sim::TickConfig(), 100, 10);
  MergedReader reader(node.exchange.get(), node.executor.get());
  std::vector<float> merged(100, -1.0f);
  reader.Begin(merged.data());
  EXPECT_FALSE(reader.Step());
  EXPECT_TRUE(reader.Wait(0));
  EXPECT_TRUE(reader.End());
  EXPECT_EQ(merged, std::vector<float>(100, -1.0f));
}

TEST(MergedReader, LetsThoseGoThatWaitForASegmentThatFails) {
  bool fails = false;
  SegmentCluster segment(2, 1000);
  segment.replica_device = [&](int node) {
    ReplicaDevice replica_device = HostReplica();
    replica_device.make_executor = [&, node,
                                    make = replica_device.make_executor](const auto&... arguments) {
      return std::make_unique<FakeExecutor>(make(arguments...),
                                            FakeExecutorOptions{.before = [&, node](auto) {
                                              if (fails && node == 1)
                                                throw Error("the device has failed");
                                            }});
    };
    return replica_device;
  };
  segment.StartAll();
  fails = true;
  std::vector<float> merged(1000);
  MergedReader& reader = segment.net(1).merged();
  reader.Begin(merged.data());
  bool ended = false;
  std::thread waiting([&] { ended = reader.Wait(60'000); });
  EXPECT_THROW(segment.Run(10), Error);
  waiting.join();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(reader.End());
  reader.Begin(merged.data());
  EXPECT_TRUE(reader.Wait(0));
  EXPECT_FALSE(reader.End());
}

TEST(MergedReader, ReadsWhereTheReplicaLiesOnADevice) {
  constexpr int64_t kFloats = 20'000;
  FakeDevice device({.mode = FakeMode::kLate});
  NetSegmentConfig config;
  config.chunk_floats = 300;
  SegmentCluster segment(2, kFloats, config);
  segment.replica_device = [&](int) {
    return ReplicaDevice{&device, [&](const ReplicaArrays& arrays, const CodecConfig& codec,
                                      const MergeRuleConfig&) {
                           return std::make_unique<StreamExecutor>(
                               device,
                               std::make_unique<EmulatedLauncher<>>(
                                   EmulatedOptions{.seed = Seed(), .device = &device}),
                               arrays, codec, StreamLimits{.launch_ops = 32});
                         }};
  };
  segment.StartAll();
  segment.TakeTurns(200);
  segment.Run(200);
  for (int64_t i = 0; i < kFloats; i += 7) segment.Add(1, i, 5);
  const std::vector<float> rest = segment.weights(0);
  std::vector<float> merged(kFloats, -1.0f);
  segment.net(1).merged().Begin(merged.data());
  PassUntilRead(&segment, 1);
  for (int64_t i = 0; i < kFloats; ++i) {
    ASSERT_EQ(merged[i], MasterOf(&segment, i) == 1 ? -1.0f : rest[i]) << i;
  }
}

}  // namespace
}  // namespace millrace::test
