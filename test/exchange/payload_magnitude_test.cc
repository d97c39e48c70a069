#include "exchange/kernels/host_payload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"
#include "exchange/kernels/codec.h"

namespace millrace {
namespace {

// The estimate for `values` after encoding.
float Estimate(Codec codec, const std::vector<float>& values, float scale = 0) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<std::byte> out(MaxPayloadBytes(count));
  const Encoded encoded = EncodePayload(codec, values.data(), count, scale, out.data(),
                                        static_cast<uint32_t>(out.size()), Simd::kBaseline);
  return SampledMagnitude(encoded.codec, {out.data(), encoded.bytes}, count);
}

TEST(PayloadMagnitude, IsThatOfEqualElementsInEveryCodec) {
  for (const int64_t count : {1, 2, 15, 16, 17, 350}) {
    std::vector<float> values(count, 0.5f);
    for (int64_t i = 0; i < count; i += 2) values[i] = -0.5f;
    EXPECT_FLOAT_EQ(Estimate(Codec::kFloat32, values), 0.5f) << count;
    EXPECT_FLOAT_EQ(Estimate(Codec::kBfloat16, values), 0.5f) << count;
    EXPECT_FLOAT_EQ(Estimate(Codec::kInt8, values, 0.5f / 127), 0.5f) << count;
  }
}

TEST(PayloadMagnitude, CountsElementsThatAreAbsentAsZero) {
  std::vector<float> values(320);
  for (size_t i = 0; i < values.size(); i += 10) values[i] = i % 20 == 0 ? 3.0f : -3.0f;
  EXPECT_FLOAT_EQ(Estimate(Codec::kSparse, values), 0.3f);
  EXPECT_EQ(Estimate(Codec::kSparse, std::vector<float>(320)), 0);
}

TEST(PayloadMagnitude, TellsLargeDiffsFromSmallOnes) {
  Rng rng(1, {2});
  std::vector<float> large(350), small(350);
  for (float& value : large) value = rng.Gaussian();
  for (float& value : small) value = 0.1f * rng.Gaussian();
  for (const Codec codec : {Codec::kFloat32, Codec::kBfloat16, Codec::kInt8}) {
    EXPECT_GT(Estimate(codec, large, 4.0f / 127), 2 * Estimate(codec, small, 0.4f / 127));
    EXPECT_NEAR(Estimate(codec, large, 4.0f / 127), std::sqrt(2 / M_PI), 0.5);
  }
}

}  // namespace
}  // namespace millrace
