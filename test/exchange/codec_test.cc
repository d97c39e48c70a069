#include "exchange/kernels/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "exchange/kernels/host_executor.h"
#include "exchange/kernels/host_payload.h"
#include "test/exchange/reference_executor.h"
#include "test/exchange/replica.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::Guarded;
using test::kAllCodecs;
using test::Replica;
using test::SupportedSimd;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();

float AnyFinite(Rng* rng) {
  for (;;) {
    const float x = std::bit_cast<float>(rng->Next());
    if (std::isfinite(x)) return x;
  }
}

TEST(Bfloat16Codec, RoundsToTheNearestTiesToEven) {
  Rng rng(test::Seed(), {1});
  for (int i = 0; i < 100000; ++i) {
    float x = AnyFinite(&rng);
    if (i % 4 == 0) x = std::bit_cast<float>((std::bit_cast<uint32_t>(x) & 0xffff0000u) | 0x8000u);
    const float rounded = Bfloat16Codec{}.Round(x);
    EXPECT_EQ(ToBits(rounded), ToBits(test::NearestBfloat16(x))) << x;
    EXPECT_EQ(std::isfinite(rounded), Magnitude(x) < Bfloat16Codec::overflow()) << x;
    if (!std::isfinite(rounded)) continue;
    EXPECT_EQ(Bfloat16Value(Bfloat16Half(rounded)), rounded);
  }
  EXPECT_EQ(Bfloat16Codec{}.Round(1.00390625f), 1.0f);       // 1 + 2^-8: a tie
  EXPECT_EQ(Bfloat16Codec{}.Round(1.01171875f), 1.015625f);  // 1 + 3 * 2^-8: a tie
}

TEST(Int8Codec, RoundsToTheNearestLevelAndFindsItAgain) {
  Rng rng(test::Seed(), {2});
  for (int i = 0; i < 100000; ++i) {
    const float largest = std::fabs(AnyFinite(&rng));
    const Int8Codec codec{Int8Scale(largest)};
    const float u = largest * (2 * rng.Uniform() - 1);
    if (codec.scale == 0) {
      EXPECT_EQ(codec.Round(u), 0);
      continue;
    }
    const float q = codec.Level(u), d = codec.Round(u);
    EXPECT_EQ(q, static_cast<float>(test::NearestLevel(u, codec.scale)));
    EXPECT_EQ(codec.Level(d), q) << u << " by " << codec.scale;
    EXPECT_EQ(codec.Round(d), d);
    EXPECT_TRUE(std::isfinite(d) || !Int8ScaleIsSafe(codec.scale));
  }
}

TEST(Int8Codec, FindsEveryLevelAgainByEveryScale) {
  Rng rng(test::Seed(), {3});
  for (int i = 0; i < 2000; ++i) {
    const float scale =
        i < 64 ? std::ldexp(1.0f, -149 + i % 32) : Int8Scale(std::fabs(AnyFinite(&rng)));
    if (scale == 0 || !Int8ScaleIsSafe(scale)) continue;
    for (int q = -127; q <= 127; ++q) {
      EXPECT_EQ(Int8Codec{scale}.Level(scale * static_cast<float>(q)), static_cast<float>(q));
    }
  }
}

TEST(Int8Codec, NeverYieldsWhatIsNotFinite) {
  for (float largest : {0.0f, 1e-45f, 9e-44f, 2e-43f, 1e-38f, 1.0f, kLargest / 2}) {
    const Int8Codec codec{Int8Scale(largest)};
    EXPECT_TRUE(Int8ScaleIsSafe(codec.scale));
    for (float u : {largest, -largest, 0.0f, -0.0f, kLargest}) {
      EXPECT_TRUE(std::isfinite(codec.Round(u))) << u << " of " << largest;
    }
  }
  const int32_t overflow = Int8Codec::overflow();
  EXPECT_TRUE(Int8ScaleIsSafe(Int8Scale(FromBits<float>(overflow - 1))));
  EXPECT_FALSE(Int8ScaleIsSafe(Int8Scale(FromBits<float>(overflow))));
  EXPECT_FALSE(Int8ScaleIsSafe(kLargest / 127));
  EXPECT_FALSE(Int8ScaleIsSafe(kInfinity));
  EXPECT_FALSE(Int8ScaleIsSafe(kNan));
}

TEST(SparseCodec, LetsTravelWhatReachesTheThreshold) {
  const SparseCodec codec{0.5f};
  EXPECT_EQ(codec.Round(0.5f), 0.5f);
  EXPECT_EQ(codec.Round(-0.5f), -0.5f);
  EXPECT_EQ(codec.Round(0.49f), 0);
  EXPECT_EQ(codec.Round(-0.49f), 0);
  EXPECT_EQ(SparseBitmapBytes(1), 4u);
  EXPECT_EQ(SparseBitmapBytes(32), 4u);
  EXPECT_EQ(SparseBitmapBytes(33), 8u);
}

// Takes a diff from a replica with weights `u` and base 0.
ChunkOp Take(const std::vector<float>& u, CodecConfig config, Simd simd,
             std::vector<std::byte>* payload) {
  const auto n = static_cast<int64_t>(u.size());
  Replica replica(n, n);
  memcpy(replica.arrays.weights, u.data(), 4 * n);
  Guarded out(MaxPayloadBytes(n));
  ChunkOp op{.kind = ChunkOpKind::kTake, .codec = config.codec};
  op.out = out.data();
  op.out_bytes = MaxPayloadBytes(n);
  MakeHostExecutor(replica.arrays, config, {}, simd)->Run({&op, 1});
  EXPECT_TRUE(out.Intact());
  EXPECT_TRUE(replica.GuardsIntact());
  for (int64_t i = 0; i < n; ++i) {
    const float d = replica.arrays.pending[i];
    EXPECT_TRUE(std::isfinite(d) && replica.arrays.base[i] == d);
    // Elements that are not sent keep their weights.
    EXPECT_TRUE(d != 0 || memcmp(&replica.arrays.weights[i], &u[i], 4) == 0) << i;
  }
  payload->assign(out.data(), out.data() + op.out_bytes);
  return op;
}

std::string Hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (std::byte byte : bytes) {
    char two[3];
    snprintf(two, sizeof(two), "%02x", static_cast<unsigned>(byte));
    text += two;
  }
  return text;
}

TEST(Payload, HasTheBytesThatTheGrammarGives) {
  std::vector<std::byte> payload;
  Take({1, -2}, {}, BestSimd(), &payload);
  EXPECT_EQ(Hex(payload), "0000803f000000c0");
  Take({1, -2}, {Codec::kBfloat16}, BestSimd(), &payload);
  EXPECT_EQ(Hex(payload), "803f00c0");
  Take({127, -127, 0.5f, 1.5f, -3}, {Codec::kInt8}, BestSimd(), &payload);
  EXPECT_EQ(Hex(payload), "0000803f7f810002fd");
  std::vector<float> u(40, 0.1f);
  u[1] = 1, u[33] = 2;
  Take(u, {Codec::kSparse, 0.5f}, BestSimd(), &payload);
  EXPECT_EQ(Hex(payload), "02000000020000000000803f00000040");
}

// Payloads of positions.
TEST(Payload, OfWeightsHasTheirRoundedValues) {
  Rng rng(test::Seed(), {5});
  for (Simd simd : SupportedSimd()) {
    for (const Codec codec : {Codec::kFloat32, Codec::kBfloat16, Codec::kInt8}) {
      for (const int64_t count : {1, 7, 16, 353}) {
        std::vector<float> weights(count);
        float largest = 0;
        for (float& w : weights) {
          w = rng.Gaussian();
          largest = std::max(largest, std::fabs(w));
        }
        Guarded payload(4 * count + 4), decoded(4 * count);
        const Encoded encoded = EncodeWeights(codec, weights.data(), count, payload.data(), simd);
        EXPECT_EQ(encoded.codec, codec);
        EXPECT_EQ(encoded.bytes, MinPayloadBytes(codec, count));
        EXPECT_TRUE(payload.Intact(encoded.bytes));
        EXPECT_EQ(CheckPayload(codec, payload.data(), encoded.bytes, count, simd), 0);
        DecodeWeights(codec, payload.data(), count, decoded.floats(), simd);
        EXPECT_TRUE(decoded.Intact());
        const float scale = Int8Scale(largest);
        for (int64_t i = 0; i < count; ++i) {
          const float rounded =
              codec == Codec::kBfloat16 ? test::NearestBfloat16(weights[i])
              : codec == Codec::kInt8
                  ? scale * static_cast<float>(test::NearestLevel(weights[i], scale))
                  : weights[i];
          EXPECT_EQ(decoded.floats()[i], rounded) << static_cast<int>(codec);
        }
      }
    }
  }
}

// The scale of 16 weights is a seventh of the largest of them, rounded up to a bfloat16.
TEST(Payload, OfInt4WeightsIsWithinHalfAStepOfTheirBlock) {
  Rng rng(test::Seed(), {6});
  for (const int64_t count : {1, 2, 15, 16, 17, 353}) {
    std::vector<float> weights(count);
    for (int64_t i = 0; i < count; ++i) {
      // Magnitudes differ by far from block to block; the second one is 0.
      const auto magnitude = static_cast<float>(i / 16 == 1 ? 0 : std::pow(10.0, i / 16 % 20 - 10));
      weights[i] = magnitude * (2 * static_cast<float>(rng.Uniform()) - 1);
    }
    Guarded payload(4 * count), decoded(4 * count);
    const Encoded encoded =
        EncodeWeights(Codec::kInt4, weights.data(), count, payload.data(), BestSimd());
    ASSERT_EQ(encoded.codec, Codec::kInt4);
    EXPECT_EQ(encoded.bytes, MinPayloadBytes(Codec::kInt4, count));
    EXPECT_TRUE(payload.Intact(encoded.bytes));
    DecodeWeights(Codec::kInt4, payload.data(), count, decoded.floats(), BestSimd());
    EXPECT_TRUE(decoded.Intact());
    for (int64_t i = 0; i < count; ++i) {
      float largest = 0;
      for (int64_t k = i / 16 * 16; k < std::min(i / 16 * 16 + 16, count); ++k) {
        largest = std::max(largest, std::fabs(weights[k]));
      }
      EXPECT_NEAR(decoded.floats()[i], weights[i], largest / 14 * (1 + 1.0f / 64)) << i;
    }
  }
}

TEST(Payload, OfWeightsThatTheCodecCannotHoldIsExact) {
  for (Simd simd : SupportedSimd()) {
    for (const Codec codec : {Codec::kBfloat16, Codec::kInt8, Codec::kInt4}) {
      for (const float bad : {kLargest, -kLargest, kInfinity, kNan}) {
        const std::vector<float> weights = {1, bad, 0.3f};
        std::vector<std::byte> payload(12);
        const Encoded encoded = EncodeWeights(codec, weights.data(), 3, payload.data(), simd);
        EXPECT_EQ(encoded.codec, Codec::kFloat32);
        ASSERT_EQ(encoded.bytes, 12u);
        EXPECT_EQ(std::memcmp(payload.data(), weights.data(), 12), 0);
      }
    }
  }
}

TEST(Payload, OfTooManySparseElementsIsDense) {
  std::vector<std::byte> payload;
  for (Simd simd : SupportedSimd()) {
    for (int present : {1, 30, 31, 32}) {
      std::vector<float> u(32, 0.1f);
      std::fill_n(u.begin(), present, 1.0f);
      const ChunkOp op = Take(u, {Codec::kSparse, 0.5f}, simd, &payload);
      EXPECT_EQ(op.out_codec, present < 31 ? Codec::kSparse : Codec::kFloat32);
      EXPECT_EQ(payload.size(), present < 31 ? 4u + 4 * present : 128u);
      std::vector<float> d(32);
      EXPECT_EQ(test::ReferenceDecode(op.out_codec, payload.data(), payload.size(), &d), 0);
      for (int i = 0; i < 32; ++i) EXPECT_EQ(d[i], i < present ? 1 : 0);
    }
  }
}

TEST(Payload, LeavesOutOnlyTheElementsThatAreNotFinite) {
  std::vector<std::byte> payload;
  for (Simd simd : SupportedSimd()) {
    for (Codec codec : kAllCodecs) {
      for (float bad : {kInfinity, -kInfinity, kNan, -kNan}) {
        for (size_t at = 0; at < 35; ++at) {
          std::vector<float> u(35, 0.0f), d(35);
          for (size_t i = 0; i < 35; i += 5) u[i] = 112;
          u[at] = bad;
          const ChunkOp op = Take(u, {codec, 0.5f}, simd, &payload);
          EXPECT_EQ(op.result, kNonZero | kRemainder);
          EXPECT_EQ(test::ReferenceDecode(op.out_codec, payload.data(), payload.size(), &d), 0);
          for (size_t i = 0; i < 35; ++i) EXPECT_EQ(d[i], i != at && i % 5 == 0 ? 112 : 0);
        }
      }
    }
  }
}

TEST(Payload, LeavesOutWhatOverflowsInItsCodec) {
  // The largest value that is sent, and the smallest that is not.
  const std::pair<Codec, int32_t> bounds[] = {{Codec::kBfloat16, Bfloat16Codec::overflow()},
                                              {Codec::kInt8, Int8Codec::overflow()},
                                              {Codec::kInt4, Int4Codec::overflow()}};
  std::vector<std::byte> payload;
  for (Simd simd : SupportedSimd()) {
    for (const auto& [codec, overflow] : bounds) {
      const auto most = std::bit_cast<float>(overflow - 1), above = std::bit_cast<float>(overflow);
      for (size_t at : {0, 9}) {
        std::vector<float> u(10, 0.0f), d(10);
        u[at] = above;
        EXPECT_EQ(Take(u, {codec}, simd, &payload).result, kRemainder);
        u[3] = -most;
        const ChunkOp op = Take(u, {codec}, simd, &payload);
        EXPECT_EQ(op.result, kNonZero | kRemainder);
        EXPECT_EQ(test::ReferenceDecode(op.out_codec, payload.data(), payload.size(), &d), 0);
        for (size_t i = 0; i < 10; ++i) EXPECT_EQ(d[i] != 0, i == 3) << i;
      }
    }
    EXPECT_EQ(Take({1, kLargest}, {}, simd, &payload).result, kNonZero);
  }
}

TEST(Payload, IsNotMadeOfADiffThatRoundsToNothing) {
  std::vector<std::byte> payload;
  for (Simd simd : SupportedSimd()) {
    EXPECT_EQ(Take({1e-45f, -1e-45f}, {Codec::kInt8}, simd, &payload).result, kRemainder);
    EXPECT_EQ(Take({0.1f, -0.1f}, {Codec::kSparse, 0.5f}, simd, &payload).result, kRemainder);
    EXPECT_EQ(Take({0, 0}, {}, simd, &payload).result, 0);
    EXPECT_TRUE(payload.empty());
  }
}

// Passes `bytes` to an operation on a fresh replica and checks that a refusal changes nothing.
// The block has exactly the payload's size, so that AddressSanitizer detects overreads.
uint8_t Offer(ChunkOpKind kind, Codec codec, const std::vector<std::byte>& bytes, int64_t n,
              Simd simd) {
  Replica replica(n, n), before(n, n);
  Rng rng(test::Seed(), {9});
  test::Scatter(&replica, 1, &rng);
  before.CopyFrom(replica);
  const std::unique_ptr<std::byte[]> block(new std::byte[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), block.get());
  ChunkOp op{.kind = kind, .codec = codec, .acknowledged = true, .take = true};
  Guarded out(MaxPayloadBytes(n));
  op.out = out.data();
  op.out_bytes = MaxPayloadBytes(n);
  op.in = block.get();
  op.in_bytes = static_cast<uint32_t>(bytes.size());
  MakeHostExecutor(replica.arrays, {codec, 0.5f}, {}, simd)->Run({&op, 1});
  EXPECT_TRUE(replica.GuardsIntact());
  if (op.result & (kMalformed | kNonFinite)) {
    EXPECT_TRUE(replica.Equals(before));
    EXPECT_TRUE(out.Intact(0));
  }
  return op.result;
}

TEST(Payload, OfAnyOtherLengthIsRefusedWithNothingWritten) {
  for (Simd simd : SupportedSimd()) {
    for (int64_t n : {1, 2, 3, 8, 33, 65}) {
      std::vector<float> u(n, 1.0f);
      for (size_t i = 1; i < u.size(); ++i) u[i] = i % 3 == 0 ? 1.0f : 0.0f;
      for (Codec codec : kAllCodecs) {
        std::vector<std::byte> payload;
        const ChunkOp op = Take(u, {codec, 0.5f}, simd, &payload);
        EXPECT_EQ(Offer(ChunkOpKind::kMerge, op.out_codec, payload, n, simd), 0);
        for (size_t bytes = 0; bytes < payload.size() + 9; ++bytes) {
          if (bytes == payload.size()) continue;
          std::vector<std::byte> other = payload;
          other.resize(bytes);
          EXPECT_EQ(Offer(ChunkOpKind::kMerge, op.out_codec, other, n, simd), kMalformed);
        }
      }
      for (int64_t bytes = 0; bytes < 4 * n + 9; ++bytes) {
        const std::vector<std::byte> position(bytes);
        const bool fits = bytes == 4 * n;
        EXPECT_EQ(Offer(ChunkOpKind::kExchange, {}, position, n, simd) & kMalformed,
                  fits ? 0 : kMalformed);
        EXPECT_EQ(Offer(ChunkOpKind::kLoad, {}, position, n, simd), fits ? 0 : kMalformed);
      }
    }
  }
}

TEST(Payload, OfAnUnknownCodecIsRefused) {
  EXPECT_EQ(Offer(ChunkOpKind::kMerge, Codec{4}, std::vector<std::byte>(0), 1, BestSimd()),
            kMalformed);
  EXPECT_EQ(Offer(ChunkOpKind::kMerge, Codec{255}, std::vector<std::byte>(4), 1, BestSimd()),
            kMalformed);
}

TEST(Payload, WithElementsBeyondTheLastIsRefused) {
  for (Simd simd : SupportedSimd()) {
    for (int64_t n : {1, 8, 31, 33, 63, 64}) {
      const uint32_t bitmap = SparseBitmapBytes(n);
      for (int64_t i = 0; i < 8 * bitmap; ++i) {
        std::vector<std::byte> payload(bitmap + 4);
        payload[i / 8] = std::byte{1} << (i % 8);
        EXPECT_EQ(Offer(ChunkOpKind::kMerge, Codec::kSparse, payload, n, simd),
                  i < n ? 0 : kMalformed);
      }
    }
  }
}

TEST(Payload, ThatIsNotFiniteIsRefusedWithNothingWritten) {
  const int64_t n = 35;
  for (Simd simd : SupportedSimd()) {
    for (float bad : {kInfinity, -kInfinity, kNan}) {
      const auto bits = std::bit_cast<uint32_t>(bad);
      for (int64_t at = 0; at < n; ++at) {
        std::vector<std::byte> dense(4 * n), half(2 * n), sparse(8 + 4 * n, std::byte{0xff});
        memcpy(&dense[4 * at], &bits, 4);
        memcpy(&half[2 * at], reinterpret_cast<const char*>(&bits) + 2, 2);
        EXPECT_EQ(Offer(ChunkOpKind::kMerge, Codec::kFloat32, dense, n, simd), kNonFinite);
        EXPECT_EQ(Offer(ChunkOpKind::kExchange, Codec::kFloat32, dense, n, simd), kNonFinite);
        EXPECT_EQ(Offer(ChunkOpKind::kLoad, Codec::kFloat32, dense, n, simd), kNonFinite);
        EXPECT_EQ(Offer(ChunkOpKind::kMerge, Codec::kBfloat16, half, n, simd), kNonFinite);
        sparse[4] = std::byte{7}, sparse[5] = sparse[6] = sparse[7] = std::byte{0};
        memcpy(&sparse[8], dense.data(), 4 * n);
        EXPECT_EQ(Offer(ChunkOpKind::kMerge, Codec::kSparse, sparse, n, simd), kNonFinite);
      }
      std::vector<std::byte> int8(4 + n);
      memcpy(int8.data(), &bits, 4);
      EXPECT_EQ(Offer(ChunkOpKind::kMerge, Codec::kInt8, int8, n, simd), kNonFinite);
      std::vector<std::byte> int4(MinPayloadBytes(Codec::kInt4, n));
      memcpy(int4.data() + (n - 1) / 16 * 2, reinterpret_cast<const char*>(&bits) + 2, 2);
      EXPECT_EQ(Offer(ChunkOpKind::kMerge, Codec::kInt4, int4, n, simd), kNonFinite);
    }
  }
}

}  // namespace
}  // namespace millrace
