#include "segment/divergence_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "test/support/exchange_node.h"

namespace millrace {
namespace {

using test::FrameBytes;
using test::kTickNs;

constexpr int64_t kChunks = 6, kFloats = 10;  // kFloats per chunk

// Two exchanges that deliver their frames immediately, as long as `delivers` is set.
class Pair {
 public:
  Pair() {
    for (uint16_t id : {0, 1}) {
      ExchangeConfig config = test::TickConfig();
      config.node = id;
      config.peer_timeout_ns = 3600'000'000'000;  // tests advance the time in large steps
      nodes_[id].Start(config, kChunks * kFloats, kFloats);
    }
    for (int i = 0; i < 1000 && !Ready(); ++i) Step();
    EXPECT_TRUE(Ready());
    const NodeId peer = 0;
    sampler_ = std::make_unique<DivergenceSampler>(
        nodes_[1].exchange.get(), nodes_[1].executor.get(), std::span<const NodeId>(&peer, 1));
  }

  // One tick: each node sends, and the other receives its frames.
  void Step() {
    now_ += kTickNs;
    for (int from : {0, 1}) {
      std::vector<PostedFrame> room(64);
      const size_t count = exchange(from).Send(room, now_);
      std::vector<FrameBytes> frames;
      std::vector<std::span<const std::byte>> views;
      for (size_t i = 0; i < count; ++i) frames.push_back({room[i].head, room[i].payload});
      for (const FrameBytes& frame : frames) views.push_back(frame.view());
      views.erase(views.begin(), views.end() - std::min(views.size(), delivers_last));
      if (delivers) exchange(1 - from).Receive(views, now_);
      for (size_t i = 0; i < count; ++i) exchange(from).Release(room[i].slot);
    }
  }
  bool Ready() {
    return exchange(0).view().synced() == 2 && exchange(0).quiescent() && exchange(1).quiescent();
  }
  void Iterate(int node) { exchange(node).SetProgress(++nodes_[node].iterations); }
  // Runs one full round of node 1's sampler, with the first step now.
  void Sample() {
    for (int64_t step = 0; step < DivergenceSampler::kSteps; ++step) {
      const bool last = step + 1 == DivergenceSampler::kSteps;
      EXPECT_EQ(sampler().Sample(now_), last);
      EXPECT_FALSE(sampler().Sample(now_ + DivergenceSampler::kStepNs - 1));  // not due yet
      now_ += DivergenceSampler::kStepNs;
    }
  }
  // When a chunk is sampled, relative to the start of the round.
  static int64_t LookedAtNs(uint32_t chunk) {
    const int64_t behind = DivergenceSampler::kSteps * (chunk + 1);
    return ((behind + kChunks - 1) / kChunks - 1) * DivergenceSampler::kStepNs;
  }
  // The chunks that node 0 masters.
  std::vector<uint32_t> Foreign() {
    std::vector<uint32_t> foreign;
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      if (exchange(1).table().chunks[chunk].owner == 0) foreign.push_back(chunk);
    }
    return foreign;
  }

  Exchange& exchange(int node) { return *nodes_[node].exchange; }
  std::vector<float>& weights(int node) { return nodes_[node].weights; }
  DivergenceSampler& sampler() { return *sampler_; }
  int64_t now() const { return now_; }
  bool delivers = true;
  size_t delivers_last = SIZE_MAX;  // delivers only this many frames of a step, the last ones

 private:
  test::ExchangeNode nodes_[2];
  std::unique_ptr<DivergenceSampler> sampler_;
  int64_t now_ = 0;
};

TEST(DivergenceSampler, FindsHowOldThePositionsOfEachMasterAre) {
  Pair pair;
  pair.Iterate(0);  // makes all chunks of node 0 due
  pair.Step();
  const std::vector<uint32_t> foreign = pair.Foreign();
  const int64_t arrived = pair.now();
  for (uint32_t chunk : foreign)
    ASSERT_EQ(pair.exchange(1).table().chunks[chunk].last_position_at, arrived);
  EXPECT_EQ(pair.sampler().all().rounds, 0u);
  pair.Sample();
  const Divergence found = pair.sampler().peers()[0];
  EXPECT_EQ(found.rounds, 1u);
  EXPECT_EQ(found.chunks, foreign.size());
  EXPECT_EQ(found.age_max_ns, Pair::LookedAtNs(foreign.back()));
  const int64_t median = Pair::LookedAtNs(foreign[(foreign.size() - 1) / 2]);
  EXPECT_LE(std::abs(found.age_p50_ns - median), median / 8);
  EXPECT_EQ(pair.sampler().all().age_max_ns, found.age_max_ns);
  // A second later, without new positions, they are a second older.
  pair.Sample();
  EXPECT_EQ(pair.sampler().all().rounds, 2u);
  EXPECT_EQ(pair.sampler().all().age_max_ns,
            found.age_max_ns + DivergenceSampler::kSteps * DivergenceSampler::kStepNs);
}

TEST(DivergenceSampler, TheOldestPositionNeedNotBeThatOfTheLastChunk) {
  Pair pair;
  const std::vector<uint32_t> foreign = pair.Foreign();
  const auto last_position_at = [&](uint32_t chunk) {
    return pair.exchange(1).table().chunks[chunk].last_position_at;
  };
  pair.Iterate(0);
  pair.Step();
  const int64_t first = pair.now();
  pair.Sample();
  pair.Iterate(0);
  pair.delivers_last = 1;
  pair.Step();
  ASSERT_EQ(last_position_at(foreign.front()), first);
  ASSERT_EQ(last_position_at(foreign.back()), pair.now());
  const int64_t began = pair.now();
  pair.Sample();
  EXPECT_GE(pair.sampler().all().age_max_ns, began - first);
}

TEST(DivergenceSampler, TellsAgesInIterationsOfAllNodes) {
  Pair pair;
  pair.Sample();
  EXPECT_EQ(pair.sampler().all().age_iterations, 0);
  for (int i = 0; i < 250; ++i) pair.Iterate(1);  // all within the next second
  pair.Sample();
  const Divergence found = pair.sampler().all();
  EXPECT_GT(found.age_p50_ns, 1'000'000'000);
  EXPECT_NEAR(found.age_iterations, static_cast<double>(found.age_p50_ns) * 250e-9, 1e-6);
}

TEST(DivergenceSampler, MeasuresWhatTheMasterIsNotKnownToHave) {
  Pair pair;
  const std::vector<uint32_t> foreign = pair.Foreign();
  const auto sampled = static_cast<double>(foreign.size() * kFloats);
  pair.Sample();
  EXPECT_EQ(static_cast<double>(pair.sampler().all().sampled), sampled);
  EXPECT_EQ(pair.sampler().all().distance_rms, 0);
  EXPECT_EQ(pair.sampler().all().distance_max, 0);
  // Progress that was not sent yet.
  for (int64_t i = 0; i < kFloats; ++i) pair.weights(1)[foreign[0] * kFloats + i] += 0.5f;
  pair.weights(1)[foreign[1] * kFloats] -= 2.0f;
  const double rms = std::sqrt((kFloats * 0.25 + 4) / sampled);
  pair.Sample();
  EXPECT_NEAR(pair.sampler().all().distance_rms, rms, 1e-12);
  EXPECT_EQ(pair.sampler().all().distance_max, 2);
  // Progress that was sent but not acknowledged: the same distance.
  pair.delivers = false;
  pair.Iterate(1);
  pair.Step();
  EXPECT_TRUE(pair.exchange(1).table().chunks[foreign[0]].pending);
  pair.Sample();
  EXPECT_NEAR(pair.sampler().peers()[0].distance_rms, rms, 1e-12);
  EXPECT_EQ(pair.sampler().peers()[0].distance_max, 2);
}

TEST(DivergenceSampler, MeasuresRoundTripsOfTheLastSampleOnly) {
  Pair pair;
  const uint32_t chunk = pair.Foreign()[0];
  pair.Sample();
  EXPECT_EQ(pair.sampler().all().answered, 0u);
  pair.weights(1)[chunk * kFloats] += 1;
  pair.Iterate(1);
  pair.Step();  // the diff is sent; node 0 sends in the next tick
  ASSERT_TRUE(pair.exchange(1).table().chunks[chunk].pending);
  pair.Step();
  ASSERT_FALSE(pair.exchange(1).table().chunks[chunk].pending);
  pair.Sample();
  const Divergence found = pair.sampler().peers()[0];
  EXPECT_EQ(found.answered, 1u);
  EXPECT_LE(std::abs(found.round_trip_p50_ns - kTickNs), kTickNs / 8);
  EXPECT_EQ(found.round_trip_p99_ns, found.round_trip_p50_ns);
  pair.Sample();
  EXPECT_EQ(pair.sampler().all().answered, 0u);
  EXPECT_EQ(pair.sampler().all().round_trip_p50_ns, 0);
}

}  // namespace
}  // namespace millrace
