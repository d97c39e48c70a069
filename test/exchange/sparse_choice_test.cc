// Which elements of a chunk the codecs topk and random send, and the texts of codecs.
#include "exchange/kernels/sparse_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "exchange/kernels/codec_config.h"
#include "exchange/kernels/host_executor.h"
#include "test/exchange/replica.h"
#include "test/support/support.h"

namespace millrace {
namespace {

std::vector<bool> Choose(SparseChoice choice, double share, uint32_t seed,
                         const std::vector<float>& values) {
  std::vector<int32_t> words;
  for (const float value : values) words.push_back(std::bit_cast<int32_t>(std::fabs(value)));
  const int64_t chosen = ChooseElements(choice, share, seed, static_cast<int64_t>(words.size()),
                                        reinterpret_cast<ChoiceWord*>(words.data()));
  std::vector<bool> mask;
  for (const int32_t word : words) {
    EXPECT_TRUE(word == 0 || word == -1);
    mask.push_back(word == -1);
  }
  EXPECT_EQ(std::count(mask.begin(), mask.end(), true), chosen);
  return mask;
}

TEST(ChosenCount, IsTheShareRoundedUp) {
  EXPECT_EQ(ChosenCount(0.01, 350), 4);
  EXPECT_EQ(ChosenCount(0.01, 100), 1);
  EXPECT_EQ(ChosenCount(0.07, 100), 7);  // 7.000000000000001 as a product
  EXPECT_EQ(ChosenCount(0.1, 8192), 820);
  EXPECT_EQ(ChosenCount(1e-9, 10), 1);
  EXPECT_EQ(ChosenCount(1, 1), 1);
  EXPECT_EQ(ChosenCount(1, 351), 351);
}

TEST(TopShare, HasTheLargestMagnitudes) {
  Rng rng(test::Seed(), {1});
  for (const size_t count : {1, 2, 31, 32, 33, 350, 8192}) {
    for (const double share : {1e-6, 0.01, 0.3, 1.0}) {
      std::vector<float> values(count);
      for (float& value : values) value = test::AnyValue(&rng);
      const std::vector<bool> mask = Choose(SparseChoice::kTop, share, 0, values);
      // The expected choice, by a stable sort: as many elements as fit that are not 0.
      std::vector<size_t> order(count);
      for (size_t i = 0; i < count; ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return std::fabs(values[a]) > std::fabs(values[b]);
      });
      order.resize(static_cast<size_t>(std::ceil(share * static_cast<double>(count))));
      std::vector<bool> expected(count);
      for (const size_t i : order) expected[i] = values[i] != 0;
      EXPECT_EQ(mask, expected) << count << ' ' << share;
    }
  }
}

TEST(TopShare, OfEqualMagnitudesHasTheFirst) {
  std::vector<float> values(100, -0.5f);
  values[90] = 1;
  const std::vector<bool> mask = Choose(SparseChoice::kTop, 0.1, 0, values);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(mask[i], i < 9 || i == 90) << i;
}

TEST(RandomShare, HasItsNumberOfElementsThatHaveSomethingToSend) {
  Rng rng(test::Seed(), {2});
  std::vector<float> values(1000);
  for (size_t i = 0; i < 1000; ++i) values[i] = i % 4 == 0 ? 0 : rng.Gaussian();
  std::vector<int> times(1000);
  std::set<std::vector<bool>> choices;
  for (uint32_t round = 0; round < 300; ++round) {
    const std::vector<bool> mask =
        Choose(SparseChoice::kRandom, 0.05, ChoiceSeed(3, round), values);
    EXPECT_EQ(std::count(mask.begin(), mask.end(), true), 50);
    choices.insert(mask);
    for (size_t i = 0; i < 1000; ++i) times[i] += mask[i];
  }
  EXPECT_EQ(choices.size(), 300u);
  // 300 * 50 / 750 = 20 on average; a Poisson count is below 50 with near certainty.
  for (size_t i = 0; i < 1000; ++i) {
    EXPECT_LT(times[i], 55) << i;
    EXPECT_EQ(times[i] == 0, values[i] == 0) << i;
  }
  EXPECT_NE(Choose(SparseChoice::kRandom, 0.05, ChoiceSeed(3, 1), values),
            Choose(SparseChoice::kRandom, 0.05, ChoiceSeed(4, 1), values));
}

// All progress is sent in the end, by as many diffs as the share needs.
TEST(SparseShares, SendAllProgressInTheEnd) {
  Rng rng(test::Seed(), {3});
  for (const Simd simd : test::SupportedSimd()) {
    for (const SparseChoice choice : {SparseChoice::kTop, SparseChoice::kRandom}) {
      const CodecConfig codec{Codec::kSparse, 0, choice, 0.1};
      test::Replica replica(351, 351);
      for (int i = 0; i < 351; ++i) replica.arrays.weights[i] = rng.Gaussian();
      const auto executor = MakeHostExecutor(replica.arrays, codec, {}, simd);
      std::vector<std::byte> out(MaxPayloadBytes(351));
      int diffs = 0;
      for (;; ++diffs) {
        ChunkOp op{.kind = ChunkOpKind::kTake, .codec = Codec::kSparse};
        op.out = out.data();
        op.out_bytes = static_cast<uint32_t>(out.size());
        executor->Run({&op, 1});
        if (!(op.result & kNonZero)) break;
        EXPECT_EQ(op.out_codec, Codec::kSparse);
        EXPECT_LE(op.out_bytes, SparseBitmapBytes(351) + 4 * 36);
        std::fill_n(replica.arrays.pending, 351, 0.0f);
      }
      EXPECT_EQ(diffs, 10);  // 36 of 351 in each
      for (int i = 0; i < 351; ++i) {
        EXPECT_EQ(replica.arrays.weights[i], replica.arrays.base[i]);
      }
    }
  }
}

TEST(CodecText, HasANameAndItsParameter) {
  EXPECT_EQ(ParseCodec("int8")->codec, Codec::kInt8);
  const CodecConfig sparse = *ParseCodec("sparse:0.25");
  EXPECT_EQ(CodecName(sparse), "sparse");
  EXPECT_EQ(sparse.threshold, 0.25f);
  for (const std::string name : {"topk", "random"}) {
    const CodecConfig codec = *ParseCodec(name + ":0.01");
    EXPECT_EQ(CodecName(codec), name);
    EXPECT_EQ(codec.codec, Codec::kSparse);
    EXPECT_EQ(codec.share, 0.01);
    EXPECT_TRUE(ParseCodec(name + ":1"));
  }
  for (const char* bad : {"", "fp16", "int8:1", "int8:", "sparse", "sparse:", "sparse:0",
                          "sparse:nan", "sparse:1e-60", "topk", "topk:0", "topk:1.01", "topk:-1",
                          "topk:nan", "topk:x", "random:"}) {
    EXPECT_FALSE(ParseCodec(bad)) << bad;
  }
}

}  // namespace
}  // namespace millrace
