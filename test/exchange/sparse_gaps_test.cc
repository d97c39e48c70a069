// The form in which the present elements of a chunk travel by the gaps between them.
#include "exchange/kernels/sparse_gaps.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/simd.h"
#include "exchange/kernels/host_payload.h"

namespace millrace {
namespace {

using Bytes = std::vector<std::byte>;

Bytes SparsePayloadOf(const std::vector<float>& values) {
  Bytes payload(4 * values.size() + 4);
  const Encoded encoded =
      EncodePayload(Codec::kSparse, values.data(), static_cast<int64_t>(values.size()), 0,
                    payload.data(), static_cast<uint32_t>(payload.size()), BestSimd());
  EXPECT_EQ(encoded.codec, Codec::kSparse);
  payload.resize(encoded.bytes);
  return payload;
}

std::pair<SparseForm, Bytes> ByGaps(const Bytes& sparse, size_t count) {
  Bytes room(sparse.size());
  uint32_t bytes = 0;
  const SparseForm form = WriteGaps(sparse, static_cast<int64_t>(count), room, &bytes);
  room.resize(form == SparseForm::kBitmap ? 0 : bytes);
  return {form, room};
}

Bytes Read(const Bytes& payload, bool is_short, size_t count) {
  Bytes sparse(4 * count + 4);
  sparse.resize(ReadGaps(payload, is_short, static_cast<int64_t>(count), sparse.data()));
  return sparse;
}

Bytes BytesOf(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(SparseGaps, AreReadAsTheSparsePayloadOfWhichTheyWereWritten) {
  Rng rng(7, {1});
  for (int round = 0; round < 400; ++round) {
    const size_t count = 33 + rng.Below(1500);
    const bool is_short = round % 2 == 0;
    std::vector<float> values(count);
    const double share = 0.12 * rng.Uniform();
    for (float& value : values) {
      if (rng.Uniform() < share) value = is_short ? 0.5f : 0.1f + rng.Uniform();
    }
    const Bytes sparse = SparsePayloadOf(values);
    const auto [form, payload] = ByGaps(sparse, count);
    if (form == SparseForm::kBitmap) continue;
    EXPECT_LT(payload.size(), sparse.size());
    EXPECT_EQ(Read(payload, form == SparseForm::kShortGaps, count), sparse);
  }
}

TEST(SparseGaps, AreOfAnyLength) {
  for (const size_t gap : {0, 1, 254, 255, 256, 509, 510, 511, 1024}) {
    std::vector<float> values(1100);
    values[gap] = 1.0f / 3;
    values[1099] = -2;
    const Bytes sparse = SparsePayloadOf(values);
    const auto [form, payload] = ByGaps(sparse, values.size());
    EXPECT_EQ(form, SparseForm::kGaps);
    EXPECT_EQ(payload.size(), 10 + gap / 255 + (1099 - gap - 1) / 255);
    EXPECT_EQ(Read(payload, false, values.size()), sparse) << gap;
  }
}

TEST(SparseGaps, AreShortIfNoValueLosesAnything) {
  std::vector<float> values(100);
  values[3] = 1.5f;
  EXPECT_EQ(ByGaps(SparsePayloadOf(values), 100).second, BytesOf({3, 0xc0, 0x3f}));
  values[5] = 1.0f / 3;
  const auto [form, payload] = ByGaps(SparsePayloadOf(values), 100);
  EXPECT_EQ(form, SparseForm::kGaps);
  EXPECT_EQ(payload.size(), 10u);
}

TEST(SparseGaps, AreNotUsedWhereABitmapIsAsShort) {
  std::vector<float> values(64);
  for (size_t i = 0; i < 10; ++i) values[i] = 1.0f / 3;
  EXPECT_EQ(ByGaps(SparsePayloadOf(values), 64).first, SparseForm::kBitmap);
  EXPECT_EQ(ByGaps(SparsePayloadOf(std::vector<float>(64)), 64).first, SparseForm::kShortGaps);
}

TEST(SparseGaps, RefusesWhatIsNoPayload) {
  const auto refuses = [](std::initializer_list<int> bytes, size_t count) {
    return Read(BytesOf(bytes), true, count).empty();
  };
  EXPECT_FALSE(refuses({}, 10));
  EXPECT_FALSE(refuses({9, 0, 0x40}, 10));
  EXPECT_TRUE(refuses({10, 0, 0x40}, 10));             // behind the last element
  EXPECT_TRUE(refuses({9, 0, 0x40, 0, 0, 0x40}, 10));  // the same
  EXPECT_TRUE(refuses({3}, 10));
  EXPECT_TRUE(refuses({3, 0}, 10));
  EXPECT_TRUE(refuses({255}, 1000));  // ends within a gap
  EXPECT_TRUE(refuses({255, 255, 255, 255, 10, 0, 0x40}, 1000));
  EXPECT_TRUE(refuses({0, 0, 0x40, 0, 0, 0x40}, 2));  // as long as float32
}

}  // namespace
}  // namespace millrace
