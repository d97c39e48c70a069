// Positions that travel rounded (ExchangeConfig::position_codec).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "exchange/kernels/codec.h"
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
    return GetParam() == Codec::kInt8 ? largest / 254 : largest / 256;
  }
};

INSTANTIATE_TEST_SUITE_P(Codecs, PositionCodec, testing::Values(Codec::kBfloat16, Codec::kInt8));

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
  const size_t coded = GetParam() == Codec::kInt8 ? 14 : 20;
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
  std::vector<std::byte> payload(LeastPayloadBytes(GetParam(), 10));
  std::memcpy(payload.data(), &kNan, 4);  // the scale, or two elements
  if (GetParam() == Codec::kBfloat16) std::memcpy(payload.data(), "\xc0\x7f", 2);
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

}  // namespace
}  // namespace millrace
