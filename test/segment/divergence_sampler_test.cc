#include "segment/divergence_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "test/sim/cluster.h"

namespace millrace {
namespace {

using sim::kTickNs;

constexpr int64_t kChunks = 6, kFloats = 10;  // kFloats per chunk

// Two nodes; frames of node 0 arrive in the tick in which they are sent. Node 1 has a sampler.
class Pair : public sim::Cluster {
 public:
  Pair()
      : Cluster({.size = kChunks * kFloats,
                 .chunk_floats = kFloats,
                 .faults = {.delay_min = 0, .delay_max = 0},
                 // The tests let much time pass.
                 .peer_timeout_ticks = 3600'000'000}) {
    const NodeId peer = 0;
    sampler_ = std::make_unique<DivergenceSampler>(&exchange(1), (*this)[1].executor.get(),
                                                   std::span(&peer, 1));
  }
  void Iterate(size_t node) { Add(node, 0, 0); }
  // Runs both nodes one tick later. now() is then the time at which they ran.
  void Step() {
    Sleep(1);
    Tick();
    Sleep(-1);
  }
  // Runs one full round of the sampler, with the first step now.
  void Sample() {
    for (int64_t step = 0; step < DivergenceSampler::kSteps; ++step) {
      const bool last = step + 1 == DivergenceSampler::kSteps;
      EXPECT_EQ(sampler().Sample(now()), last);
      EXPECT_FALSE(sampler().Sample(now() + DivergenceSampler::kStepNs - 1));  // not due yet
      Sleep(DivergenceSampler::kStepNs / kTickNs);
    }
  }
  // When a chunk is sampled, relative to the start of the round.
  static int64_t SampledAtNs(uint32_t chunk) {
    const int64_t behind = DivergenceSampler::kSteps * (chunk + 1);
    return ((behind + kChunks - 1) / kChunks - 1) * DivergenceSampler::kStepNs;
  }
  // The chunks that node 0 masters.
  std::vector<uint32_t> Foreign() {
    std::vector<uint32_t> foreign;
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      if (owner(chunk) == 0) foreign.push_back(chunk);
    }
    return foreign;
  }
  std::vector<float>& weights(int node) { return (*this)[node].weights; }
  DivergenceSampler& sampler() { return *sampler_; }

 private:
  std::unique_ptr<DivergenceSampler> sampler_;
};

TEST(DivergenceSampler, FindsHowOldThePositionsOfEachMasterAre) {
  Pair pair;
  pair.Iterate(0);  // makes all chunks of node 0 due
  pair.Step();
  const std::vector<uint32_t> foreign = pair.Foreign();
  const int64_t heard = pair.now();
  for (uint32_t chunk : foreign)
    ASSERT_EQ(pair.exchange(1).table().chunks[chunk].last_position_at, heard);
  EXPECT_EQ(pair.sampler().all().rounds, 0u);
  pair.Sample();
  const Divergence found = pair.sampler().peers()[0];
  EXPECT_EQ(found.rounds, 1u);
  EXPECT_EQ(found.chunks, foreign.size());
  EXPECT_EQ(found.age_max_ns, Pair::SampledAtNs(foreign.back()));
  const int64_t median = Pair::SampledAtNs(foreign[(foreign.size() - 1) / 2]);
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
  pair.delivers = [&](uint16_t, uint16_t, const sim::FrameBytes& frame) {
    return frame.decoded().header.chunk == foreign.back();
  };
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
  pair.delivers = [](auto&&...) { return false; };
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
