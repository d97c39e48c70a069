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
#include "exchange/kernels/sparse_gaps.h"
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

// Positions that travel as changes, of one element in five.
class PositionsAsChanges : public testing::Test {
 protected:
  struct Sent {
    uint16_t to;
    uint64_t number;
    bool is_change;
    size_t bytes;
  };

  PositionsAsChanges() {
    x.delivers = [this](uint16_t from, uint16_t to, const FrameBytes& frame) {
      const FrameView view = frame.decoded();
      const FrameHeader& h = view.header;
      if (from != master_ || h.type != FrameType::kPosition || h.chunk != chunk_) return true;
      const bool is_change = h.codec == Codec::kSparse;
      EXPECT_EQ(h.sparse_form, is_change ? SparseForm::kShortGaps : SparseForm::kBitmap);
      sent.push_back({to, h.number, is_change, view.payload.size()});
      return to != deaf || !is_change;
    };
  }

  // Adds 1 to a weight of the chunk at the master, and gives time for its position.
  void Step(int64_t weight) {
    x.Add(master_, int64_t{chunk_} * 10 + weight, 1);
    x.Run(kTicks);
  }
  float WeightOf(size_t node, int64_t weight) {
    return x[node].weights[size_t{chunk_} * 10 + weight];
  }
  // Those to the node, since the last call.
  std::vector<Sent> TakeSent(uint16_t to) {
    std::vector<Sent> taken;
    for (const Sent& each : sent) {
      if (each.to == to) taken.push_back(each);
    }
    sent.clear();
    return taken;
  }

  static constexpr int kTicks = 12;
  Cluster x{{.nodes = 3, .position_codec = Codec::kSparse, .position_share = 0.2}};
  const uint16_t master_ = 0;
  const uint32_t chunk_ = x.ChunkOf(master_);
  std::vector<Sent> sent;
  uint16_t deaf = kNoNode;  // receives no change
};

TEST_F(PositionsAsChanges, HaveWhatDiffersMostAndLaterTheRest) {
  Step(0);  // members know the first position
  TakeSent(1);
  for (int64_t i = 0; i < 10; ++i) {
    x.Add(master_, int64_t{chunk_} * 10 + i, static_cast<float>(10 + i));
  }
  x.Run(kTicks);
  std::vector<Sent> positions = TakeSent(1);
  ASSERT_EQ(positions.size(), 1u);
  EXPECT_TRUE(positions[0].is_change);
  EXPECT_EQ(positions[0].bytes, 6u);  // two elements
  EXPECT_EQ(WeightOf(1, 9), 19);
  EXPECT_EQ(WeightOf(2, 8), 18);
  EXPECT_EQ(WeightOf(1, 7), 0);
  for (int64_t step = 0; step < 4; ++step) {
    x.Add(master_, int64_t{chunk_} * 10, 1.0f / 64);  // so that the chunk has changed
    x.Run(kTicks);
  }
  positions = TakeSent(1);
  ASSERT_EQ(positions.size(), 4u);
  for (const Sent& each : positions) EXPECT_TRUE(each.is_change && each.bytes == 6);
  for (int64_t i = 1; i < 10; ++i) EXPECT_EQ(WeightOf(2, i), 10 + i);
  x.Flush();
  EXPECT_EQ(WeightOf(1, 0), WeightOf(0, 0));
  EXPECT_EQ(WeightOf(1, 0), 11 + 4.0f / 64);
}

TEST_F(PositionsAsChanges, AreSentAgainToAMemberThatLacksThemAndThenInFull) {
  Step(0);
  TakeSent(1);
  deaf = 1;
  x.Add(master_, int64_t{chunk_} * 10 + 3, 1);
  x.Run(2);
  const std::vector<Sent> first = TakeSent(1);
  ASSERT_EQ(first.size(), 1u);
  x.Add(master_, int64_t{chunk_} * 10 + 4, 1);
  for (int tick = 0; tick < 2000 && WeightOf(1, 4) == 0; ++tick) x.Run(1);
  const std::vector<Sent> more = TakeSent(1);
  ASSERT_EQ(more.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(more[i].is_change);
    EXPECT_EQ(more[i].number, first[0].number);
  }
  EXPECT_FALSE(more[3].is_change);
  EXPECT_EQ(more[3].number, first[0].number + 1);
  constexpr double kRounding = 1.0 / 14;
  for (const size_t node : {1, 2}) {
    EXPECT_NEAR(WeightOf(node, 3), 1, kRounding);
    EXPECT_NEAR(WeightOf(node, 4), 1, kRounding);
  }
  deaf = kNoNode;
  Step(5);
  EXPECT_TRUE(TakeSent(1).back().is_change);
  EXPECT_NEAR(WeightOf(1, 5), 1, kRounding);
}

TEST_F(PositionsAsChanges, ThatAreLostOnceChangeTheWeightsOnce) {
  Step(0);
  int losses = 0;
  const auto delivers = x.delivers;
  x.delivers = [&](uint16_t from, uint16_t to, const FrameBytes& frame) {
    if (!delivers(from, to, frame)) return false;
    return sent.empty() || sent.back().to != 1 || !sent.back().is_change || losses++ > 0;
  };
  Step(3);
  for (int tick = 0; tick < 2000 && WeightOf(1, 3) == 0; ++tick) x.Run(1);
  EXPECT_GT(losses, 1);
  for (const size_t node : {1, 2}) EXPECT_EQ(WeightOf(node, 3), 1);
  for (const Sent& each : TakeSent(1)) EXPECT_TRUE(each.is_change || each.number == 1);
}

TEST_F(PositionsAsChanges, AreRefusedWithoutThePositionBeforeAndInOtherFormats) {
  Step(0);
  const uint64_t acks = 0;
  const auto give = [&](uint64_t ahead, SparseForm form, std::vector<std::byte> payload) {
    FrameHeader header = x.HeaderOf(master_, kAllNodes, FrameType::kPosition);
    header.chunk = chunk_;
    header.number = x.exchange(0).table().chunks[chunk_].number + ahead;
    header.codec = Codec::kSparse;
    header.sparse_form = form;
    header.length = static_cast<uint32_t>(payload.size());
    x.Give(1, x.Forge(0, header, std::as_bytes(std::span(&acks, 1)), payload));
  };
  const auto drops = [&](DropReason reason) { return x.exchange(1).stats().drops[reason]; };
  const std::vector<std::byte> one = {std::byte{2}, std::byte{0}, std::byte{0x40}};
  const uint64_t old = drops(DropReason::kOld);
  give(2, SparseForm::kShortGaps, one);
  EXPECT_EQ(drops(DropReason::kOld), old + 1);
  give(1, SparseForm::kGaps, one);
  give(1, SparseForm::kBitmap, one);
  EXPECT_EQ(drops(DropReason::kField), 2u);
  give(1, SparseForm::kShortGaps, {std::byte{10}, std::byte{0}, std::byte{0x40}});
  EXPECT_EQ(drops(DropReason::kPayload), 1u);
  EXPECT_EQ(WeightOf(1, 2), 0);
  give(1, SparseForm::kShortGaps, one);
  EXPECT_EQ(WeightOf(1, 2), 2);
}

TEST_F(PositionsAsChanges, OfANewMasterBeginInFull) {
  Step(3);
  std::vector<Codec> codecs;  // of the new master's positions
  x.delivers = [&](uint16_t from, uint16_t to, const FrameBytes& frame) {
    const FrameHeader h = frame.decoded().header;
    if (from == master_ || to == master_ || h.type != FrameType::kPosition || h.chunk != chunk_) {
      return true;
    }
    codecs.push_back(h.codec);
    return true;
  };
  x.exchange(0).Leave();
  for (int i = 0; i < 200 && !x.exchange(0).left(); ++i) x.Tick();
  ASSERT_TRUE(x.exchange(0).left());
  const uint16_t now = x.exchange(1).table().chunks[chunk_].owner;
  x.Add(now, int64_t{chunk_} * 10 + 4, 1);
  x.Run(100);
  ASSERT_GE(codecs.size(), 2u);
  EXPECT_EQ(codecs.front(), Codec::kInt4);
  EXPECT_EQ(codecs.back(), Codec::kSparse);
  for (const size_t node : {1, 2}) {
    EXPECT_NEAR(WeightOf(node, 3), 1, 0.01);
    EXPECT_NEAR(WeightOf(node, 4), 1, 0.01);
  }
}

// A node that becomes the master may learn a newer position from another member than the last one
// that it has taken itself. A change since its own would change the other member twice.
TEST_F(PositionsAsChanges, OfANewMasterBeginWithThePositionThatItLearns) {
  // One of the others makes progress all the time. Returns the master after the first one is gone.
  const auto lose_master = [&](Cluster& cluster, uint16_t busy) {
    cluster[master_].stopped = true;
    for (int i = 0; i < 300; ++i) {
      cluster.Add(busy, int64_t{chunk_} * 10 + 6, 1.0f / 128);
      cluster.Tick();
    }
    return cluster.exchange(1).table().chunks[chunk_].owner;
  };
  Cluster same({.nodes = 3, .position_codec = Codec::kSparse, .position_share = 0.2});
  const uint16_t next = lose_master(same, 1), other = 3 - next;
  Step(3);
  deaf = next;
  x.Add(master_, int64_t{chunk_} * 10 + 4, 1);
  x.Run(2);
  ASSERT_EQ(WeightOf(other, 4), 1);
  ASSERT_EQ(WeightOf(next, 4), 0);
  ASSERT_EQ(lose_master(x, other), next);
  // Up to the rounding of positions in full.
  EXPECT_NEAR(WeightOf(other, 4), 1, 0.4);
  EXPECT_NEAR(WeightOf(next, 4), 1, 0.4);
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
