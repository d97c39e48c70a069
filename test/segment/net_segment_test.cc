#include "segment/net_segment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "test/sim/handshake_cluster.h"
#include "test/sim/segment_cluster.h"
#include "test/support/fake_transport.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using sim::kMs;
using Segment = sim::SegmentCluster;

void BringAboutEqualWeights(const NetSegmentConfig& config) {
  Segment segment(3, 5000, config);
  segment.StartAll();
  Rng rng(test::Seed(), {});
  std::vector<double> sum(5000);
  for (int i = 0; i < 3000; ++i) {
    const int node = static_cast<int>(rng.Below(3));
    const auto step = static_cast<float>(rng.Below(9)) - 4.0f;
    sum[segment.made(node) % 5000] += step;
    segment.Iterate(node, step);
    segment.Pass();
  }
  segment.Run(2000);
  for (int node = 0; node < 3; ++node) {
    EXPECT_EQ(segment.net(node).state().global_iterations(), 3000u);
    const std::vector<float> weights = segment.weights(node);
    for (int i = 0; i < 5000; ++i) ASSERT_EQ(weights[i], sum[i]) << node << ' ' << i;
  }
}

TEST(NetSegment, BringsTheProgressOfEveryNodeToAllOthers) { BringAboutEqualWeights({}); }

TEST(NetSegment, DoesSoWithSignedFrames) {
  NetSegmentConfig config;
  config.filter.key = std::make_shared<const SecretKey>(sim::KeyOf('k'));
  BringAboutEqualWeights(config);
}

TEST(NetSegment, StartsFromTheWeightsOfTheNodeThatBegan) {
  Segment segment(2, 1000);
  segment.Start(1, 5.0f);
  segment.Run(2500);
  EXPECT_TRUE(segment.net(1).state().in_sync());
  EXPECT_TRUE(segment.net(1).state().bootstrapped());
  EXPECT_TRUE(segment.net(1).state().is_leader());
  segment.Start(0, 9.0f);
  EXPECT_FALSE(segment.net(0).state().in_sync());
  segment.Run(1000);
  EXPECT_TRUE(segment.net(0).state().in_sync());
  EXPECT_FALSE(segment.net(0).state().bootstrapped());
  for (float w : segment.weights(0)) ASSERT_EQ(w, 5.0f);
  // Exactly one node is the leader: the one with the lowest id.
  EXPECT_TRUE(segment.net(0).state().is_leader());
  EXPECT_FALSE(segment.net(1).state().is_leader());
}

TEST(NetSegment, SendsNothingButHeartbeatsWithoutProgress) {
  Segment segment(2, 20000);
  segment.StartAll();
  segment.Run(1000);
  const uint64_t before = segment.net(0).metrics().exchange().sent[1];  // positions
  const uint64_t bytes = segment.net(0).metrics().wire_bytes();
  segment.Run(10000);
  EXPECT_EQ(segment.net(0).metrics().exchange().sent[1], before);
  // One heartbeat per 100 ms; one per 250 ms has the size of a position.
  const size_t largest = segment.net(0).transport().max_frame_bytes();
  EXPECT_LT(segment.net(0).metrics().wire_bytes() - bytes, 100u * 150u + 40u * (largest + 100u));
  EXPECT_FALSE(segment.last().at_once);
  EXPECT_GT(segment.last().deadline_ns, segment.now() - kMs);
}

// Its thread sleeps until a frame arrives or a heartbeat is due, however fast the solvers are.
TEST(NetSegment, NeedsNoPassForTheProgressOfANodeThatIsAlone) {
  Segment segment(2, 900);
  segment.Start(0);
  segment.Run(2500);
  int sleeps = 0;
  for (int i = 0; i < 200; ++i) {
    segment.Iterate(0, 1);
    segment.Pass();
    const NetSegment::Next next = segment.last();
    EXPECT_TRUE(next.alone);
    if (!next.at_once && next.deadline_ns > segment.now() + 2 * kMs) ++sleeps;
  }
  EXPECT_GT(sleeps, 180);
  segment.Start(1);
  segment.Run(1000);
  segment.Iterate(0, 1);
  segment.Pass();
  EXPECT_FALSE(segment.last().alone);
  segment.Run(100);
  EXPECT_EQ(segment.weights(1), segment.weights(0));
}

TEST(NetSegment, SendsWhatAnotherSegmentMergedAfterItsIterationsWereCounted) {
  Segment segment(2, 900);
  segment.StartAll();
  segment.net(0).state().SetProgress(3);
  segment.Run(100);
  for (int64_t i = 0; i < 900; ++i) segment.Add(0, i, 1);
  segment.net(0).state().SetOtherMerges(1);
  segment.Run(100);
  EXPECT_EQ(segment.weights(1), segment.weights(0));
}

// A solver of node 1 trains on weights of its own for 50 iterations. Positions arrive meanwhile.
TEST(NetSegment, DampsProgressThatReachesTheWeightsLongAfterItsIterations) {
  NetSegmentConfig config;
  config.exchange.damping = true;
  config.chunk_floats = 100;
  Segment segment(2, 900, config);
  segment.StartAll();
  for (uint64_t i = 1; i <= 50; ++i) {
    segment.Iterate(0, 0);
    for (int64_t at = 0; i == 50 && at < 900; ++at) segment.Add(1, at, 100);
    segment.net(1).state().SetProgress(i, i < 50 ? i : 0);
    segment.Run(10);
  }
  segment.Run(100);
  const std::vector<float> weights = segment.weights(0);
  const auto damped = std::count_if(weights.begin(), weights.end(), [](float w) { return w < 90; });
  EXPECT_GE(damped, 100);  // of chunks that node 0 masters
  EXPECT_EQ(damped % 100, 0);
  EXPECT_LT(damped, 900);
  EXPECT_GT(*std::min_element(weights.begin(), weights.end()), 0);
}

TEST(NetSegment, TakesOverWhatANodeMasteredThatIsGone) {
  Segment segment(3, 4000);
  segment.StartAll();
  segment.TakeTurns(300);
  segment.Run(500);
  segment.Kill(1);
  for (int i = 0; i < 300; ++i) segment.Iterate(i % 2 * 2, 1.0f);
  segment.Run(6000);
  EXPECT_EQ(segment.net(0).state().members(), 2u);
  EXPECT_EQ(segment.weights(0), segment.weights(2));
  EXPECT_EQ(segment.net(0).state().global_iterations(), 600u);
  segment.Start(1);  // it rejoins by listening
  segment.Run(3000);
  EXPECT_TRUE(segment.net(1).state().in_sync());
  EXPECT_EQ(segment.weights(1), segment.weights(0));
}

TEST(NetSegment, LeavesWithEverythingDelivered) {
  Segment segment(2, 4000);
  segment.StartAll();
  for (int i = 0; i < 500; ++i) segment.Iterate(0, 1.0f);
  segment.net(0).state().RequestLeave();
  for (int i = 0; i < 4000 && !segment.net(0).state().left(); ++i) segment.Pass();
  EXPECT_TRUE(segment.net(0).state().left());
  EXPECT_TRUE(segment.net(0).state().delivered());
  EXPECT_EQ(segment.weights(1), segment.weights(0));
  EXPECT_EQ(segment.net(1).state().global_iterations(), 500u);
}

TEST(NetSegment, KeepsToItsRate) {
  NetSegmentConfig config;
  config.max_bytes_per_second = 2e6;
  Segment segment(2, 40000, config);
  segment.StartAll();
  const uint64_t before = segment.net(0).metrics().wire_bytes();
  const int64_t begin = segment.now();
  for (int i = 0; i < 20000; ++i) {
    segment.Iterate(0, 1.0f);
    segment.Iterate(1, 1.0f);
    segment.Pass();
  }
  const double seconds = static_cast<double>(segment.now() - begin) * 1e-9;
  const auto sent = static_cast<double>(segment.net(0).metrics().wire_bytes() - before);
  EXPECT_NEAR(sent / seconds, 2e6, 0.03 * 2e6);
}

TEST(NetSegment, KeepsToItsRateHoweverManyGossipThereAre) {
  constexpr double kRate = 1e5;
  NetSegmentConfig config;
  config.max_bytes_per_second = kRate;
  Segment segment(2, 1000, config);
  std::shared_ptr<GossipStore> stores[2];
  segment.gossip = [&](int node) {
    return stores[node] = std::make_shared<GossipStore>(2, static_cast<NodeId>(node), 1);
  };
  segment.StartAll();
  const uint64_t before = segment.net(0).metrics().wire_bytes();
  std::vector<std::byte> text(kMaxGossipBytes);
  for (int ms = 0; ms < 1000; ++ms) {
    for (const GossipKey key : {GossipKey::kReport, GossipKey::kEnd, GossipKey::kTest}) {
      stores[0]->Publish(key, text);
    }
    segment.Run(1);
  }
  const auto sent = static_cast<double>(segment.net(0).metrics().wire_bytes() - before);
  EXPECT_GT(sent, 0.9 * kRate);
  EXPECT_LT(sent, 1.1 * kRate);
}

// As on a socket whose kernel does not coalesce datagrams: otherwise the thread would sleep next.
TEST(NetSegment, TakesAllThatHasComeFromATransportThatLendsFewFramesAtOnce) {
  Segment segment(2, 15000);
  const auto connect = segment.connect;
  segment.connect = [connect](int node) {
    return std::make_unique<test::FakeTransport>(connect(node),
                                                 test::FakeTransportOptions{.buffers = 2});
  };
  segment.StartAll();
  segment.Run(100);
  const auto sent = [&] { return segment.net(0).metrics().exchange().bytes_sent; };
  const auto received = [&] { return segment.net(1).metrics().exchange().bytes_received; };
  const uint64_t sent_before = sent(), received_before = received();
  for (int64_t i = 0; i < 15000; ++i) segment.Add(0, i, 1);
  segment.Iterate(0, 1);
  uint64_t max_in_a_pass = 0;
  for (int pass = 0; pass < 40; ++pass) {
    const uint64_t before = received();
    segment.Pass();
    max_in_a_pass = std::max(max_in_a_pass, received() - before);
    EXPECT_EQ(received() - received_before, sent() - sent_before) << "pass " << pass;
  }
  EXPECT_GT(max_in_a_pass, 2 * segment.net(1).transport().max_frame_bytes()) << "not shown";
}

// A pass can then send about one frame, but some kinds of frames need room for more than one.
TEST(NetSegment, BringsProgressThroughAtALowRateToo) {
  NetSegmentConfig config;
  config.max_bytes_per_second = 1e5;
  Segment segment(3, 5000, config);
  segment.StartAll();
  for (int node = 0; node < 3; ++node) segment.Iterate(node, 1.0f);
  segment.Run(20000);
  for (int node = 0; node < 3; ++node) EXPECT_EQ(segment.weights(node)[0], 3.0f) << node;
}

TEST(NetSegment, WaitsLongerForAnswersWhereTheyTakeLong) {
  NetSegmentConfig config;
  config.max_bytes_per_second = 4e5;  // a sweep takes half a second
  Segment segment(2, 40000, config);
  segment.StartAll();
  const auto run = [&](int ms) {
    const ExchangeStats before = segment.net(0).metrics().exchange();
    for (int i = 0; i < ms; ++i) {
      segment.Iterate(0, 1.0f);
      segment.Iterate(1, 1.0f);
      segment.Run(1);
    }
    const ExchangeStats after = segment.net(0).metrics().exchange();
    EXPECT_GT(after.diffs_taken - before.diffs_taken, 20u);
    return static_cast<double>(after.resends - before.resends) /
           static_cast<double>(after.diffs_taken - before.diffs_taken);
  };
  run(5000);
  EXPECT_LT(run(20000), 0.2);
}

TEST(NetSegment, LosesNothingToAReceiverThatIsSlow) {
  LoopbackOptions options;
  options.queue_frames = 4;
  Segment segment(2, 30000, {}, options);
  segment.StartAll();
  for (int i = 0; i < 2000; ++i) {
    segment.Iterate(0, 1.0f);
    segment.net(0).Pass(segment.now());
    segment.net(0).Pass(segment.now());
    segment.Pass();
  }
  segment.Run(4000);
  EXPECT_GT(segment.net(0).transport().counters().busy(), 0u);
  EXPECT_EQ(segment.weights(1), segment.weights(0));
  EXPECT_EQ(segment.net(1).transport().counters().dropped(DropReason::kOverrun), 0u);
}

TEST(NetSegment, AFullDestinationHoldsUpNoOther) {
  constexpr int64_t kFloats = 30000;
  Segment segment(3, kFloats);
  NodeId full_to = kAllNodes - 1;
  const auto connect = segment.connect;
  segment.connect = [&](int node) -> std::unique_ptr<Transport> {
    return std::make_unique<test::FakeTransport>(connect(node),
                                                 test::FakeTransportOptions{.full_to = &full_to});
  };
  segment.StartAll();
  segment.Run(100);
  full_to = 1;
  for (int64_t i = 0; i < kFloats; ++i) segment.Add(0, i, 1.0f);
  segment.Iterate(0, 0);
  segment.Run(100);
  // Weights that node 1 masters do not reach node 2; all others do.
  const std::vector<float> weights = segment.weights(2);
  EXPECT_GT(std::count(weights.begin(), weights.end(), 1.0f), kFloats / 2);
  EXPECT_LT(std::count(weights.begin(), weights.end(), 1.0f), kFloats);
}

TEST(NetSegment, CountsByPeer) {
  Segment segment(3, 20000);
  segment.StartAll();
  segment.TakeTurns(10000);
  segment.Run(2000);
  const SegmentMetrics& metrics = segment.net(0).metrics();
  const DivergenceSampler& sampler = segment.net(0).sampler();
  ASSERT_EQ(metrics.peers().size(), 2u);
  EXPECT_EQ(segment.net(0).NameOf(metrics.peers()[1]), "node2");
  const ExchangeStats stats = metrics.exchange();
  PeerStats sum;
  for (const NodeId peer : metrics.peers()) {
    const PeerStats found = metrics.peer(peer);
    EXPECT_GT(found.frames_out, 1000u);
    EXPECT_GT(found.sweeps, 5);
    sum.frames_in += found.frames_in;
    sum.bytes_in += found.bytes_in;
    sum.positions_taken += found.positions_taken;
    sum.diffs_merged += found.diffs_merged;
    sum.round_trip += found.round_trip;
    const Divergence& divergence = sampler.peers()[peer - 1];
    EXPECT_GE(divergence.rounds, 2u);
    EXPECT_GT(divergence.chunks, 0u);
    EXPECT_GT(divergence.age_max_ns, 0);
    EXPECT_EQ(divergence.distance_max, 0);  // every node has all progress
  }
  EXPECT_EQ(sum.bytes_in, stats.bytes_received);
  EXPECT_EQ(sum.positions_taken, stats.positions_taken);
  EXPECT_EQ(sum.diffs_merged, stats.diffs_merged);
  EXPECT_EQ(sum.round_trip.count(), metrics.round_trip().count());
  EXPECT_GT(metrics.round_trip().count(), 100u);
  EXPECT_GT(metrics.sweeps(), 5);
  EXPECT_EQ(sampler.all().chunks, sampler.peers()[0].chunks + sampler.peers()[1].chunks);
  // Drops of frames that arrived before their sender had completed the handshake.
  uint64_t filter = 0;
  for (const NodeId peer : metrics.peers()) filter += segment.net(0).filter().drops_of(peer);
  EXPECT_EQ(filter, metrics.dropped(DropComponent::kFilter));
}

TEST(NetSegment, LeavesOutSinglePeersWhereTheRegistryIsHalfFull) {
  MetricsRegistry registry;
  for (size_t i = 0; registry.room() > MetricsRegistry::kCapacity / 2 + 200; ++i) {
    registry.AddGauge({"a", "Help."}, {{"i", std::to_string(i)}});
  }
  Segment segment(30, 1000);
  segment.StartOther(0, [&](NetSegmentConfig* config) {
    config->name = "lan";
    config->registry = &registry;
  });
  segment.Run(100);
  const MetricsReading reading = registry.Read();
  EXPECT_EQ(reading.Value("peer node1 on lan", "frames_sent", -1) >= 0, true);
  EXPECT_EQ(reading.Value("peer node29 on lan", "frames_sent", -1), -1);
  EXPECT_GT(reading.Value("segment lan", "passes"), 0);
  EXPECT_GE(registry.room(), MetricsRegistry::kCapacity / 2 - 20);
}

// Two nodes with a key; the transport of the first one can be full.
class FullTransport : public testing::Test {
 protected:
  void SetUp() override {
    NetSegmentConfig config;
    config.filter.key = std::make_shared<const SecretKey>(sim::KeyOf('k'));
    segment_ = std::make_unique<Segment>(2, 1000, config, LoopbackOptions{});
    const auto connect = segment_->connect;
    segment_->connect = [this, connect](int node) -> std::unique_ptr<Transport> {
      if (node != 0) return connect(node);
      return std::make_unique<test::FakeTransport>(connect(node),
                                                   test::FakeTransportOptions{.full = &full_});
    };
    segment_->gossip = [this](int node) {
      const auto id = static_cast<NodeId>(node);
      return stores_[node] = std::make_shared<GossipStore>(2, id, 1);
    };
    segment_->StartAll();
    segment_->Run(100);
  }
  void Publish(int version) {
    stores_[0]->Publish(GossipKey::kEnd, std::as_bytes(std::span(&version, 1)));
  }
  // The version that the other node has received; 0: none.
  int Received() {
    for (const GossipMessage& gossip : stores_[1]->Read(GossipKey::kEnd)) {
      if (gossip.node == 0) return std::to_integer<int>(gossip.bytes[0]);
    }
    return 0;
  }

  bool full_ = false;
  std::shared_ptr<GossipStore> stores_[2];
  std::unique_ptr<Segment> segment_;
};

TEST_F(FullTransport, TakesTheGossipAsSoonAsItHasRoom) {
  full_ = true;
  Publish(1);
  segment_->Run(15);
  EXPECT_EQ(Received(), 0);
  EXPECT_EQ(segment_->last().what, WaitFor::kReceive);  // for frames of the other node
  full_ = false;
  segment_->Pass();
  segment_->Pass();
  EXPECT_EQ(Received(), 1);
}

TEST_F(FullTransport, IsAckedOnceTheOthersHaveAllGossip) {
  segment_->Run(100);
  const SegmentState& state = segment_->net(0).state();
  EXPECT_EQ(state.gossip_acked(), stores_[0]->changes());
  full_ = true;
  Publish(1);
  segment_->Run(100);
  EXPECT_LT(state.gossip_acked(), stores_[0]->changes());
  full_ = false;
  segment_->Run(100);
  EXPECT_EQ(state.gossip_acked(), stores_[0]->changes());
}

TEST_F(FullTransport, TakesTheNewestGossipAfterALongTime) {
  full_ = true;
  for (int version = 1; version <= 9; ++version) {
    Publish(version);
    segment_->Run(50);
  }
  full_ = false;
  segment_->Run(25);
  EXPECT_EQ(Received(), 9);
  const uint64_t sent = segment_->net(0).gossip()->stats().fragments_sent;
  segment_->Run(3000);
  EXPECT_EQ(Received(), 9);
  EXPECT_LE(segment_->net(0).gossip()->stats().fragments_sent, sent + 1);
}

TEST(NetSegment, CutsChunksToTheFramesOfTheTransport) {
  ExchangeConfig config;
  config.max_nodes = 4;
  EXPECT_EQ(ChunkFloatsFor(1464, config), 348);
  EXPECT_EQ(ChunkFloatsFor(8960, config), 2222);
  EXPECT_EQ(ChunkFloatsFor(100, config), 0);
  // Parameter arrays begin at multiples of 16, and share no scale of int4.
  config.position_codec = Codec::kInt4;
  EXPECT_EQ(ChunkFloatsFor(1464, config), 336);
  config.position_codec = Codec::kFloat32;
  for (size_t bytes = 300; bytes < 3000; ++bytes) {
    const int64_t floats = ChunkFloatsFor(bytes, config);
    if (floats == 0) continue;
    const ReplicaArrays arrays{.size = floats, .chunk_floats = floats};
    EXPECT_LE(MaxFrameBytes(config, arrays), bytes);
  }
}

TEST(NetSegment, RefusesChunksThatNoFrameCarries) {
  LoopbackHub hub(LoopbackOptions{.max_frame_bytes = 1464});
  std::vector<float> weights(1000);
  NetSegmentConfig config;
  config.name = "lan";
  config.chunk_floats = 400;
  config.filter.handshake.names = {"a", "b"};
  try {
    NetSegment net(config, hub.Connect(0), weights.data(), 1000);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "segment lan: frames of 1464 bytes carry 348 floats of a chunk: expected at "
                 "least 400; a larger mtu or a smaller chunk_floats is needed");
  }
}

}  // namespace
}  // namespace millrace
