// Positions that travel rounded (ExchangeConfig::position_codec).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_payload.h"
#include "exchange/protocol/exchange.h"
#include "test/sim/cluster.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using sim::Cluster;
using sim::FrameBytes;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class PositionCodec : public testing::TestWithParam<Codec> {
 protected:
  // The largest rounding error of a weight below `largest`, in a chunk of such weights.
  static double Error(double largest) {
    return GetParam() == Codec::kInt8   ? largest / 254
           : GetParam() == Codec::kInt4 ? largest / 13.8
                                        : largest / 256;
  }
};

INSTANTIATE_TEST_SUITE_P(Codecs, PositionCodec,
                         testing::Values(Codec::kBfloat16, Codec::kInt8, Codec::kInt4));

// What the master rounds off never becomes progress of anybody: its weights hold exactly what all
// nodes have made, the others the same up to the rounding, and in the end exactly.
TEST_P(PositionCodec, RoundsOnlyWhatOthersSee) {
  Cluster x({.nodes = 3, .position_codec = GetParam()});
  constexpr int kSteps = 400;
  for (int i = 0; i < kSteps; ++i) {
    x.Tick([&](uint16_t node, std::vector<float>& weights) {
      for (size_t k = 0; k < weights.size(); ++k)
        weights[k] += static_cast<float>(1 + (k + node) % 7);
    });
  }
  x.Settle();
  const auto made = [&](size_t k) {
    return kSteps * static_cast<double>(3 + k % 7 + (k + 1) % 7 + (k + 2) % 7);
  };
  bool rounded = false;
  for (size_t k = 0; k < 60; ++k) {
    const uint16_t master = x.owner(static_cast<uint32_t>(k / 10));
    for (size_t node = 0; node < 3; ++node) {
      EXPECT_NEAR(x[node].weights[k], made(k), node == master ? 1 : Error(kSteps * 25) + 1);
      rounded |= std::abs(x[node].weights[k] - x[master].weights[k]) > 1;
    }
  }
  EXPECT_TRUE(rounded);
  x.Flush();
  for (size_t k = 0; k < 60; ++k) {
    EXPECT_NEAR(x[0].weights[k], made(k), 1);
    EXPECT_EQ(x[1].weights[k], x[0].weights[k]);
    EXPECT_EQ(x[2].weights[k], x[0].weights[k]);
  }
}

TEST_P(PositionCodec, MakesPositionsSmallerUntilFlush) {
  Cluster x({.position_codec = GetParam()});
  const size_t coded = MinPayloadBytes(GetParam(), 10);
  EXPECT_EQ(coded, GetParam() == Codec::kInt4 ? 7u : GetParam() == Codec::kInt8 ? 14u : 20u);
  size_t expected = coded, seen = 0;
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
    const FrameView view = frame.decoded();
    if (view.header.type != FrameType::kPosition) return true;
    ++seen;
    EXPECT_EQ(view.payload.size(), expected);
    EXPECT_EQ(view.header.codec, expected == 40 ? Codec::kFloat32 : GetParam());
    return true;
  };
  x.Step(0);
  x.Run(5);
  EXPECT_GT(seen, 0u);
  x.Settle();
  expected = 40;
  seen = 0;
  x.Flush();
  EXPECT_EQ(seen, 6u);  // each chunk once
}

// The weight of BatchNorm's sums is 1000 after some thousand iterations, beside weights of 0.05.
TEST_P(PositionCodec, KeepsSmallWeightsBesideALargeOne) {
  constexpr int64_t kCount = 1006, kLarge = 64;
  Cluster x({.nodes = 2,
             .size = kCount,
             .chunk_floats = kCount,
             .position_codec = GetParam(),
             .faults = {.rate = 256}});
  const uint16_t master = x.owner(0), worker = 1 - master;
  Rng rng(1, {1});
  std::vector<float>& weights = x[master].weights;
  for (float& w : weights) w = 0.05f * (2 * static_cast<float>(rng.Uniform()) - 1);
  std::fill_n(weights.begin(), kLarge, 1.0f);
  weights[kLarge] = 1000;
  x.Add(master, 0, 0);
  x.Settle();
  for (int64_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(x[worker].weights[i], weights[i], std::abs(weights[i]) / 256) << i;
  }
}

TEST_P(PositionCodec, SendsWeightsThatItCannotHoldAsTheyAre) {
  Cluster x({.position_codec = GetParam()});
  const uint32_t chunk = x.ChunkOf(0);
  x.Add(0, chunk * 10, 3.4e38f);
  x.Add(0, chunk * 10 + 1, 1.00001f);
  x.Settle();
  EXPECT_EQ(x[1].weights[chunk * 10], 3.4e38f);
  EXPECT_EQ(x[1].weights[chunk * 10 + 1], 1.00001f);
}

// Node 1 leaves, and node 0 becomes the master of its chunks.
TEST_P(PositionCodec, ANodeThatTakesAChunkOverHasItExactly) {
  Cluster x({.nodes = 2, .position_codec = GetParam()});
  for (int i = 0; i < 50; ++i) {
    x.Tick([&](uint16_t, std::vector<float>& weights) {
      for (float& w : weights) w += 3;
    });
  }
  x.Settle();
  x.exchange(1).Leave();
  for (int i = 0; i < 200 && !x.exchange(1).left(); ++i) x.Tick();
  ASSERT_TRUE(x.exchange(1).left());
  for (const float w : x[0].weights) EXPECT_EQ(w, 300);
}

TEST_P(PositionCodec, RefusesPositionsThatAreNotFiniteOrOfAnotherLength) {
  Cluster x({.position_codec = GetParam()});
  const uint32_t chunk = x.ChunkOf(0);
  const uint64_t acks = 0;
  const auto give = [&](Codec codec, FrameType type, std::vector<std::byte> payload) {
    FrameHeader header = x.HeaderOf(0, kAllNodes, type);
    header.chunk = chunk;
    header.number = x.exchange(0).table().chunks[chunk].number + 5;
    header.codec = codec;
    header.length = static_cast<uint32_t>(payload.size());
    x.Give(1, x.Forge(0, header, std::as_bytes(std::span(&acks, 1)), payload));
  };
  const auto drops = [&](DropReason reason) { return x.exchange(1).stats().drops[reason]; };
  const uint64_t taken = x.exchange(1).stats().positions_taken;
  std::vector<std::byte> payload(MinPayloadBytes(GetParam(), 10));
  std::memcpy(payload.data(), &kNan, 4);  // the scale, or two elements
  if (GetParam() != Codec::kInt8) std::memcpy(payload.data(), "\xc0\x7f", 2);
  give(GetParam(), FrameType::kPosition, payload);
  EXPECT_EQ(drops(DropReason::kNonFinite), 1u);
  payload.push_back({});
  give(GetParam(), FrameType::kPosition, payload);
  EXPECT_EQ(drops(DropReason::kChunk), 1u);
  give(Codec::kSparse, FrameType::kPosition, payload);
  EXPECT_EQ(drops(DropReason::kField), 1u);
  payload.pop_back();
  give(GetParam(), FrameType::kTakeoverState, payload);
  EXPECT_EQ(drops(DropReason::kField), 2u);
  for (const float w : x[1].weights) EXPECT_EQ(w, 0);
  EXPECT_EQ(x.exchange(1).stats().positions_taken, taken);
}

// The codec with which weights are sent that should have this one.
Codec Sent(Codec codec, const std::vector<float>& weights) {
  std::vector<std::byte> out(4 * weights.size());
  const auto count = static_cast<int64_t>(weights.size());
  return EncodeWeights(codec, weights.data(), count, out.data(), BestSimd()).codec;
}

TEST(EncodeWeights, SendsWeightsOfOneDistributionAsInt8) {
  Rng rng(2, {1});
  for (const size_t count : {1, 5, 16, 40, 1463, 16000}) {
    std::vector<float> uniform, gaussian, sparse;
    for (size_t i = 0; i < count; ++i) {
      uniform.push_back(2 * static_cast<float>(rng.Uniform()) - 1);
      gaussian.push_back(0.03f * rng.Gaussian());
      sparse.push_back(i % 20 == 0 ? rng.Gaussian() : 0.0f);
    }
    EXPECT_EQ(Sent(Codec::kInt8, uniform), Codec::kInt8) << count;
    EXPECT_EQ(Sent(Codec::kInt8, sparse), Codec::kInt8) << count;
    // One of a few weights may be much larger than the others.
    if (count > 16) {
      EXPECT_EQ(Sent(Codec::kInt8, gaussian), Codec::kInt8) << count;
    }
    EXPECT_EQ(Sent(Codec::kInt8, std::vector<float>(count)), Codec::kInt8) << count;
  }
}

TEST(EncodeWeights, SendsWeightsAsInt4UnlessMostOfABlockWouldBeZero) {
  Rng rng(4, {1});
  std::vector<float> plain, parameters, outlier;
  for (int i = 0; i < 1008; ++i) plain.push_back(0.05f * rng.Gaussian());
  parameters = outlier = plain;
  // Two arrays of other magnitudes, which begin at multiples of 16.
  for (int i = 0; i < 20; ++i) parameters[320 + i] *= 1e-3f;
  std::fill_n(parameters.begin() + 340, 12, 0.0f);
  parameters[352] = 1000;
  std::fill_n(parameters.begin() + 353, 15, 0.0f);
  outlier[500] = 100;
  EXPECT_EQ(Sent(Codec::kInt4, plain), Codec::kInt4);
  EXPECT_EQ(Sent(Codec::kInt4, parameters), Codec::kInt4);
  EXPECT_EQ(Sent(Codec::kInt4, std::vector<float>(100)), Codec::kInt4);
  EXPECT_EQ(Sent(Codec::kInt4, outlier), Codec::kBfloat16);
  EXPECT_EQ(Sent(Codec::kInt4, {1000, 1, 1}), Codec::kBfloat16);
}

TEST(EncodeWeights, SendsWeightsOfMixedMagnitudeAsBfloat16) {
  Rng rng(3, {1});
  std::vector<float> plain;
  for (int i = 0; i < 1000; ++i) plain.push_back(0.05f * rng.Gaussian());
  std::vector<float> outlier = plain, biases = plain, tail = plain;
  outlier[500] = 100;
  for (int i = 0; i < 20; ++i) biases[303 + i] *= 1e-3f;
  for (int i = 990; i < 1000; ++i) tail[i] *= 1e-3f;
  EXPECT_EQ(Sent(Codec::kInt8, plain), Codec::kInt8);
  EXPECT_EQ(Sent(Codec::kInt8, outlier), Codec::kBfloat16);
  EXPECT_EQ(Sent(Codec::kInt8, biases), Codec::kBfloat16);
  EXPECT_EQ(Sent(Codec::kInt8, tail), Codec::kBfloat16);
  EXPECT_EQ(Sent(Codec::kInt8, {1000, 1, 1}), Codec::kBfloat16);
}

}  // namespace
}  // namespace millrace
