// A block of concurrent threads: its sums and barriers, and the kernel body on it.
#include "exchange/kernels/kernel_block.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "exchange/kernels/kernel_body.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "test/support/support.h"
#include "test/support/threaded_lanes.h"

namespace millrace {
namespace {

template <typename Lanes>
class KernelBlocks : public testing::Test {};

// One warp, several warps, and warps of one thread.
using AllLanes = testing::Types<test::ThreadedLanes<8, 1>, test::ThreadedLanes<4, 2>,
                                test::ThreadedLanes<2, 3>, test::ThreadedLanes<1, 4>>;
TYPED_TEST_SUITE(KernelBlocks, AllLanes);

// Fewer elements than threads, equally many, slightly more, several tiles.
constexpr int64_t kCounts[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 100};

// Returns the result of `ask` on each thread of a block.
template <typename Lanes, typename Ask>
std::vector<uint32_t> AskAll(Ask ask) {
  std::vector<uint32_t> answers(Lanes::kWarp * Lanes::kWarps);
  WarpSums<Lanes> sums;
  test::RunThreaded<Lanes>([&](const Lanes& lanes) {
    KernelBlock<Lanes> block(nullptr, &sums, lanes);
    answers[lanes.index()] = ask(block);
  });
  return answers;
}

template <typename Lanes>
std::vector<uint32_t> AllSay(uint32_t value) {
  return std::vector<uint32_t>(Lanes::kWarp * Lanes::kWarps, value);
}

std::vector<uint32_t> Values(int64_t count, uint64_t seed) {
  Rng rng(test::Seed(), {seed, static_cast<uint64_t>(count)});
  std::vector<uint32_t> values(static_cast<size_t>(count));
  for (uint32_t& value : values) value = rng.Next() >> 8;
  return values;
}

TYPED_TEST(KernelBlocks, TellEveryThreadTheLargest) {
  for (const int64_t n : kCounts) {
    const std::vector<uint32_t> values = Values(n, 1);
    const uint32_t expected = n == 0 ? 0 : *std::max_element(values.begin(), values.end());
    const auto answers = AskAll<TypeParam>([&](auto& block) {
      return static_cast<uint32_t>(
          block.Max(n, [&](int64_t i) { return static_cast<int32_t>(values[i]); }));
    });
    EXPECT_EQ(answers, AllSay<TypeParam>(expected)) << n;
  }
}

TYPED_TEST(KernelBlocks, TellEveryThreadAllBits) {
  for (const int64_t n : kCounts) {
    const auto answers = AskAll<TypeParam>(
        [&](auto& block) { return block.Or(n, [&](int64_t i) { return 1u << i % 32; }); });
    EXPECT_EQ(answers, AllSay<TypeParam>(n >= 32 ? ~0u : (1u << n) - 1)) << n;
  }
}

TYPED_TEST(KernelBlocks, SumUpWhatComesBefore) {
  for (const int64_t n : kCounts) {
    const std::vector<uint32_t> values = Values(n, 2);
    std::vector<uint32_t> before(values.size()), expected(values.size());
    std::exclusive_scan(values.begin(), values.end(), expected.begin(), 0u);
    const auto answers = AskAll<TypeParam>([&](auto& block) {
      return block.Scan(
          n, [&](int64_t i) { return values[i]; }, before.data());
    });
    EXPECT_EQ(answers, AllSay<TypeParam>(std::accumulate(values.begin(), values.end(), 0u))) << n;
    EXPECT_EQ(before, expected) << n;
  }
}

TYPED_TEST(KernelBlocks, ShowWhatOneStepWroteToTheNext) {
  std::vector<uint32_t> values(100);
  uint32_t once = 0;
  const auto answers = AskAll<TypeParam>([&](auto& block) {
    block.ForEach(100, [&](int64_t i) { values[i] = static_cast<uint32_t>(i); });
    block.Once([&] { once = values[99] + 1; });
    block.ForEach(100, [&](int64_t i) { values[i] += once; });
    return values[99];
  });
  EXPECT_EQ(answers, AllSay<TypeParam>(199));
  EXPECT_EQ(once, 100u);
}

// The whole batch by one block.
template <typename Lanes>
void RunBlock(const KernelBatch& batch) {
  std::vector<uint64_t> stage(batch.stage_bytes / 8 + 1);
  WarpSums<Lanes> sums;
  test::RunThreaded<Lanes>([&](const Lanes& lanes) {
    KernelBlock<Lanes> block(reinterpret_cast<std::byte*>(stage.data()), &sums, lanes);
    const AdditiveRule rule;
    KernelBody<KernelBlock<Lanes>, AdditiveRule>(batch, rule, block).RunBlock(0, 1);
  });
}

// A chain of a sparse take, its merge, a read and refused operations, compared with a team of
// one thread. Checks barriers; other tests compare the element functions.
struct Chain {
  static constexpr uint32_t kFloats = 101, kOps = 12;

  explicit Chain(SparseChoice choice)
      : memory(3 * kFloats), out(kOps, std::vector<uint32_t>(kFloats + 8)) {
    Rng rng(test::Seed(), {3});
    for (float& x : memory) x = rng.Gaussian();
    for (uint32_t& bits : nan) bits = 0x7fc00000;
    constexpr Codec kCodecs[] = {Codec::kSparse, Codec::kInt8, Codec::kBfloat16, Codec::kFloat32};
    for (uint32_t i = 0; i < kOps; ++i) {
      KernelOp& op = ops[i];
      op.count = kFloats;
      op.next = i + 1 < kOps ? i + 1 : kNoOp;
      op.out = reinterpret_cast<std::byte*>(out[i].data());
      op.codec = kCodecs[i / 3];
      if (i % 3 == 0) {
        op.kind = ChunkOpKind::kExchange;
        op.acknowledged = op.take = true;
        op.codec = kCodecs[i / 3];
        op.in = reinterpret_cast<const std::byte*>(memory.data() + kFloats);
        op.in_bytes = 4 * kFloats;
      } else if (i % 3 == 1) {
        op.kind = ChunkOpKind::kRead;
      } else {
        op.kind = ChunkOpKind::kMerge;  // refused: not finite, or too short
        op.codec = Codec::kFloat32;
        op.in = reinterpret_cast<const std::byte*>(nan);
        op.in_bytes = i == 2 ? 4 * kFloats : 4;
      }
    }
    batch.ops = ops;
    batch.chains = &first;
    batch.chain_count = 1;
    batch.weights = memory.data();
    batch.base = memory.data() + kFloats;
    batch.pending = memory.data() + 2 * kFloats;
    batch.codec = {Codec::kSparse, 1, choice, 0.2};
    batch.stage_bytes = StageBytes(kFloats);
  }

  std::vector<float> memory;
  uint32_t nan[kFloats];
  std::vector<std::vector<uint32_t>> out;
  KernelOp ops[kOps];
  uint32_t first = 0;
  KernelBatch batch;
};

TYPED_TEST(KernelBlocks, CarryAChainAsOneThreadDoes) {
  for (const SparseChoice choice :
       {SparseChoice::kThreshold, SparseChoice::kTop, SparseChoice::kRandom}) {
    Chain alone(choice), together(choice);
    RunBlock<test::ThreadedLanes<1, 1>>(alone.batch);
    RunBlock<TypeParam>(together.batch);
    EXPECT_EQ(together.memory, alone.memory);
    EXPECT_EQ(together.out, alone.out);
    for (uint32_t i = 0; i < Chain::kOps; ++i) {
      EXPECT_EQ(together.ops[i].result, alone.ops[i].result) << i;
      EXPECT_EQ(together.ops[i].out_bytes, alone.ops[i].out_bytes) << i;
      EXPECT_EQ(together.ops[i].out_codec, alone.ops[i].out_codec) << i;
    }
    EXPECT_EQ(alone.ops[2].result, kNonFinite);
    EXPECT_EQ(alone.ops[5].result, kMalformed);
    EXPECT_TRUE(alone.ops[0].result & kNonZero);
    EXPECT_EQ(alone.ops[0].out_codec, Codec::kSparse);
  }
}

// Refused operations have no other barrier: a lane must not write the result while another lane
// still reads the operation, of the same chain or the next. The thread sanitizer detects
// violations.
TYPED_TEST(KernelBlocks, ReadAnOperationBeforeItsResultIsWritten) {
  constexpr uint32_t kOps = 200, kFloats = 10;
  for (const uint32_t chains : {1u, kOps}) {
    std::vector<KernelOp> ops(kOps);
    std::vector<uint32_t> first(chains);
    std::iota(first.begin(), first.end(), 0u);
    for (uint32_t i = 0; i < kOps; ++i) {
      ops[i].kind = ChunkOpKind::kMerge;
      ops[i].count = kFloats;
      ops[i].in_bytes = 4;
      ops[i].next = chains == 1 && i + 1 < kOps ? i + 1 : kNoOp;
    }
    const std::vector<float> before(kFloats, 3);
    std::vector<float> weights = before;
    KernelBatch batch;
    batch.ops = ops.data();
    batch.chains = first.data();
    batch.chain_count = chains;
    batch.weights = weights.data();
    batch.stage_bytes = StageBytes(kFloats);
    RunBlock<TypeParam>(batch);
    for (const KernelOp& op : ops) EXPECT_EQ(op.result, kMalformed);
    EXPECT_EQ(weights, before);
  }
}

// The stage of a block holds the payload of one chain after the other.
TYPED_TEST(KernelBlocks, MergeThePayloadsOfTheirChainsOneAfterTheOther) {
  constexpr uint32_t kChains = 50, kFloats = 100;
  std::vector<KernelOp> ops(kChains);
  std::vector<uint32_t> first(kChains);
  std::iota(first.begin(), first.end(), 0u);
  std::vector<float> payloads(kChains * kFloats), weights(kChains * kFloats, 1);
  std::iota(payloads.begin(), payloads.end(), 0.0f);
  for (uint32_t i = 0; i < kChains; ++i) {
    ops[i].kind = ChunkOpKind::kMerge;
    ops[i].begin = i * kFloats;
    ops[i].count = kFloats;
    ops[i].in = reinterpret_cast<const std::byte*>(payloads.data() + i * kFloats);
    ops[i].in_bytes = 4 * kFloats;
  }
  KernelBatch batch;
  batch.ops = ops.data();
  batch.chains = first.data();
  batch.chain_count = kChains;
  batch.weights = weights.data();
  batch.stage_bytes = StageBytes(kFloats);
  EXPECT_EQ(batch.blocks(), kMaxBlocks);
  RunBlock<TypeParam>(batch);
  for (size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(weights[i], payloads[i] + 1) << i;
}

}  // namespace
}  // namespace millrace
