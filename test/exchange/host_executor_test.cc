#include "exchange/kernels/host_executor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "base/threads/range_lock.h"
#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_rule_executor.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "test/exchange/executor_pair.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::ForEveryShape;
using test::kAllCodecs;
using test::kSizes;
using test::LiveLikeTheReference;
using test::Positions;
using test::ReferenceExecutor;
using test::Replica;
using test::SupportedSimd;

// As in "Deep learning with Elastic Averaging SGD" (Zhang, Choromanska, LeCun, 2015): each side
// moves by the same share of the distance towards the other. The state is the sum of all merged
// values.
struct ElasticRule {
  static constexpr int kStateFloats = 1;
  static constexpr bool kZeroChangesNothing = false;
  float alpha;
  template <typename T>
  MILLRACE_HOST_DEVICE T Select(T u) const {
    return alpha * u;
  }
  template <typename T>
  MILLRACE_HOST_DEVICE T Residual(T u, T d) const {
    return u - 2.0f * d;
  }
  template <typename T>
  MILLRACE_HOST_DEVICE T Apply(T w, T d, T* state, uint32_t staleness) const {
    *state = *state + d;
    return w + d / (1.0f + static_cast<float>(staleness)) + alpha * *state;
  }
};

test::ReferenceRule ElasticReference(float alpha) {
  return {.zero_changes_nothing = false,
          .state_floats = 1,
          .offer = [alpha](float u) { return alpha * u; },
          .keep = [](float u, float d) { return u - 2 * d; },
          .merge =
              [alpha](float w, float d, float* state, uint32_t staleness) {
                *state += d;
                const float damped = d / (1 + static_cast<float>(staleness));
                const float pulled = alpha * *state;
                return (w + damped) + pulled;
              }};
}

class Pair : public test::ExecutorPair {
 public:
  Pair(int64_t size, int64_t chunk_floats, CodecConfig codec, Simd simd, bool elastic = false)
      : ExecutorPair(
            size, chunk_floats,
            [&](const ReplicaArrays& arrays) -> std::unique_ptr<ChunkExecutor> {
              if (!elastic) return MakeHostExecutor(arrays, codec, {}, simd);
              return std::make_unique<HostRuleExecutor<ElasticRule>>(arrays, codec,
                                                                     ElasticRule{0.4f}, simd);
            },
            [&](const ReplicaArrays& arrays) {
              return std::make_unique<ReferenceExecutor>(
                  arrays, codec, elastic ? ElasticReference(0.4f) : test::ReferenceRule{});
            }) {}
};

TEST(HostExecutor, AgreesWithTheReferenceInEveryBitOfAWorkersRun) {
  Rng rng(test::Seed(), {1});
  ForEveryShape([&](Simd simd, CodecConfig config, int64_t size, int64_t chunk) {
    Pair pair(size, chunk, config, simd);
    LiveLikeTheReference(&pair, config.codec, &rng);
  });
}

TEST(HostExecutor, CarriesAnotherRuleThroughTheSameLoops) {
  Rng rng(test::Seed(), {2});
  ForEveryShape([&](Simd simd, CodecConfig config, int64_t size, int64_t chunk) {
    Pair pair(size, chunk, config, simd, true);
    LiveLikeTheReference(&pair, config.codec, &rng);
    pair.Progress(1, &rng);
    const auto taken = pair.Run({.kind = ChunkOpKind::kTake, .codec = config.codec});
    if (taken.size() > 1 || !(taken[0].result & kNonZero)) return;
    const auto diff = pair.Out(taken[0]);
    for (uint32_t staleness : {0u, 3u}) {
      const auto merged = pair.Run(
          {.kind = ChunkOpKind::kMerge, .codec = taken[0].out_codec, .staleness = staleness},
          {diff});
      EXPECT_EQ(merged[0].result, 0);
    }
    // The state ends with the mastership: what is merged after that begins with zero.
    pair.Run({.kind = ChunkOpKind::kDemote});
    pair.Run({.kind = ChunkOpKind::kMerge, .codec = taken[0].out_codec}, {diff});
  });
}

TEST(HostExecutor, MergesWhatWasEncodedLikeTheReference) {
  Rng rng(test::Seed(), {3});
  ForEveryShape([&](Simd simd, CodecConfig config, int64_t size, int64_t chunk) {
    Pair worker(size, chunk, config, simd), master(size, chunk, config, simd);
    worker.Scatter(1, &rng);
    master.Scatter(1, &rng);
    const auto taken = worker.Run({.kind = ChunkOpKind::kTake, .codec = config.codec});
    for (Codec codec : kAllCodecs) {
      std::vector<std::vector<std::byte>> in;
      for (const ChunkOp& op : taken) in.push_back(worker.Out(op));
      const auto merged = master.Run({.kind = ChunkOpKind::kMerge, .codec = codec}, in);
      for (size_t i = 0; i < merged.size(); ++i) {
        if (codec != taken[i].out_codec || in[i].empty()) continue;
        EXPECT_EQ(merged[i].result, 0);
      }
    }
  });
}

// The state counts the merges of each element, zeros included.
struct CountingRule : AdditiveRule {
  static constexpr int kStateFloats = 1;
  template <typename T>
  MILLRACE_HOST_DEVICE T Apply(T w, T d, T* state, uint32_t /*staleness*/) const {
    *state = *state + 1.0f;
    return w + d;
  }
};

TEST(HostExecutor, TouchesOnlyWhatIsPresentOfASparseDiff) {
  Rng rng(test::Seed(), {10});
  for (Simd simd : SupportedSimd()) {
    for (int64_t n : kSizes) {
      Replica replica(n, n);
      std::fill_n(replica.arrays.weights, n, -0.0f);
      std::vector<bool> present(n);
      std::vector<std::byte> payload(SparseBitmapBytes(n));
      for (int64_t i = 0; i < n; ++i) {
        present[i] = rng.Below(4) == 0;
        if (present[i]) payload[i / 8] |= std::byte{1} << (i % 8);
      }
      // Zeros: adding one changes a weight of -0 to +0.
      payload.resize(payload.size() + 4 * std::count(present.begin(), present.end(), true));
      ChunkOp op{.kind = ChunkOpKind::kMerge, .codec = Codec::kSparse};
      op.in = payload.data();
      op.in_bytes = static_cast<uint32_t>(payload.size());
      HostRuleExecutor<CountingRule>(replica.arrays, {}, {}, simd).Run({&op, 1});
      EXPECT_EQ(op.result, 0);
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(std::signbit(replica.arrays.weights[i]), !present[i]) << i << " of " << n;
        EXPECT_EQ(replica.arrays.rule_state[i], present[i] ? 1 : 0) << i << " of " << n;
      }
    }
  }
}

TEST(HostExecutor, EncodesPendingToWhatDecodesToItExactly) {
  Rng rng(test::Seed(), {4});
  ForEveryShape([&](Simd simd, CodecConfig config, int64_t size, int64_t chunk) {
    if (size != chunk) return;
    for (float step : {1e-42f, 1e-38f, 1e-30f, 1e-3f, 1e30f}) {
      Pair pair(size, chunk, {config.codec, 0.8f * step}, simd);
      pair.Scatter(0, &rng);
      pair.Run({.kind = ChunkOpKind::kLoad}, {std::vector<std::byte>(4 * size)});
      pair.Progress(step, &rng);
      const ChunkOp taken = pair.Run({.kind = ChunkOpKind::kTake, .codec = config.codec})[0];
      const auto sent = pair.Out(taken);
      if (!(taken.result & kNonZero)) continue;
      ChunkOp again{.kind = ChunkOpKind::kEncodePending, .codec = taken.out_codec};
      again.scale = taken.scale;
      EXPECT_EQ(pair.Out(pair.Run(again)[0]), sent);
      std::vector<float> decoded(size);
      EXPECT_EQ(test::ReferenceDecode(taken.out_codec, sent.data(), sent.size(), &decoded), 0);
      EXPECT_EQ(memcmp(decoded.data(), pair.host().arrays.pending, 4 * size), 0);
    }
  });
}

TEST(HostExecutor, KeepsWhatTheCodecDropped) {
  Rng rng(test::Seed(), {5});
  for (Codec codec : {Codec::kBfloat16, Codec::kInt8, Codec::kInt4, Codec::kSparse}) {
    Pair pair(351, 351, {codec, 0.8f}, BestSimd());
    pair.Scatter(0, &rng);
    // Multiples of 2^-12: every sum below is exact.
    std::vector<float> u(351);
    ReplicaArrays& a = pair.host().arrays;
    for (int i = 0; i < 351; ++i) {
      u[i] = static_cast<float>(static_cast<int>(rng.Below(8000)) - 4000) / 4096;
      a.base[i] = 1;
      a.weights[i] = 1 + u[i];
    }
    pair.Progress(0, &rng);
    const ChunkOp taken = pair.Run({.kind = ChunkOpKind::kTake, .codec = codec})[0];
    EXPECT_EQ(taken.result, kNonZero | kRemainder);
    for (int i = 0; i < 351; ++i) {
      EXPECT_NEAR(a.weights[i] - a.base[i], double{u[i]} - a.pending[i], 2e-7) << i;
      EXPECT_NEAR(a.weights[i], 1 + u[i], 2e-7) << i;
    }
  }
}

TEST(HostExecutor, LeavesWeightsEqualToTheBaseWhenNothingRemains) {
  Rng rng(test::Seed(), {6});
  for (Simd simd : SupportedSimd()) {
    Pair pair(351, 351, {}, simd);
    pair.Scatter(1, &rng);
    const auto position = Positions(pair.host().arrays, &rng);
    const ChunkOp op =
        pair.Run({.kind = ChunkOpKind::kExchange, .acknowledged = true, .take = true}, position)[0];
    EXPECT_EQ(op.result, kNonZero);
    EXPECT_EQ(memcmp(pair.host().arrays.weights, pair.host().arrays.base, 4 * 351), 0);
    // After the acknowledgement the weights equal the position.
    const ChunkOp next =
        pair.Run({.kind = ChunkOpKind::kExchange, .acknowledged = true, .take = true}, position)[0];
    EXPECT_EQ(next.result, 0);
    EXPECT_EQ(next.out_bytes, 0u);
    const auto* expected = reinterpret_cast<const float*>(position[0].data());
    for (int i = 0; i < 351; ++i) EXPECT_EQ(pair.host().arrays.weights[i], expected[i]);
  }
}

TEST(HostExecutor, SendsAConstantBelowTheStepOnceItHasGrown) {
  Rng rng(test::Seed(), {7});
  for (Codec codec : {Codec::kInt8, Codec::kInt4, Codec::kSparse}) {
    constexpr float kSmall = 1.0f / 4096;
    Pair pair(16, 16, {codec, 0.01f}, BestSimd());
    double arrived = 0;
    for (int round = 0; round < 1000; ++round) {
      ReplicaArrays& a = pair.host().arrays;
      a.weights[3] += 0.5f;  // sets the scale of int8 to 16 times kSmall, of int4 to 293 times
      a.weights[8] += kSmall;
      pair.Progress(0, &rng);
      pair.Run({.kind = ChunkOpKind::kTake, .codec = codec});
      arrived += a.pending[8];
    }
    const double step = codec == Codec::kInt4 ? 0.5 / 7 : 0.01;
    EXPECT_NEAR(arrived, 1000 * kSmall, 1.1 * step) << static_cast<int>(codec);
    EXPECT_NEAR(arrived + pair.host().arrays.weights[8] - pair.host().arrays.base[8], 1000 * kSmall,
                1e-5);
  }
}

TEST(HostExecutor, NeedsNoOutputForAFloat32Diff) {
  Rng rng(test::Seed(), {8});
  Pair pair(700, 351, {}, BestSimd());
  pair.Scatter(1, &rng);
  for (const ChunkOp& op : pair.Run({.kind = ChunkOpKind::kTake}, {}, false)) {
    EXPECT_EQ(op.result, kNonZero);
    EXPECT_EQ(op.out_bytes, 0u);
  }
}

TEST(HostExecutor, MergesManyDiffsOfOneChunkInOneBatch) {
  Replica replica(20, 10);
  const auto executor = MakeHostExecutor(replica.arrays);
  const std::vector<float> ones(10, 1.0f);
  std::vector<ChunkOp> ops(5);
  for (ChunkOp& op : ops) {
    op = {.kind = ChunkOpKind::kMerge, .chunk = 1, .in_bytes = 40};
    op.in = reinterpret_cast<const std::byte*>(ones.data());
  }
  executor->Run(ops);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(replica.arrays.weights[i], i < 10 ? 0 : 5);
}

// A diff of small numbers for `count` elements; one in four has an invalid element.
std::vector<std::byte> PerhapsSpoilt(Codec codec, int64_t count, Rng* rng) {
  std::vector<std::byte> payload((codec == Codec::kFloat32 ? 4 : 2) * count);
  for (size_t i = 0; i + 2 <= payload.size(); i += 2) {
    const auto half = static_cast<uint16_t>(0x3f00 + rng->Below(256));  // 0.5 to 2 as bfloat16
    std::memcpy(&payload[i], &half, 2);
  }
  if (rng->Below(4) == 0) {
    const size_t width = payload.size() / count;
    const size_t last_half = (rng->Below(count) + 1) * width - 2;
    const auto bad = static_cast<uint16_t>(0x7f80 + rng->Below(2) * 0x8000 + rng->Below(2));
    std::memcpy(&payload[last_half], &bad, 2);
  }
  return payload;
}

// Diffs of any kind and order, valid or not: each is checked separately, and a refused diff
// writes nothing.
TEST(HostExecutor, ChecksEachDiffOfABatchByItself) {
  Rng rng(test::Seed(), {});
  for (Simd simd : SupportedSimd()) {
    for (int64_t floats : {9, 16, 19, 23, 40, 350}) {
      Pair pair(3 * floats - 3, floats, {}, simd);
      for (int run = 0; run < 200; ++run) {
        pair.Scatter(1.0f, &rng);
        std::vector<std::vector<std::byte>> payloads;
        std::vector<ChunkOp> ops;
        for (int i = 0; i < 8; ++i) {
          const auto chunk = static_cast<uint32_t>(rng.Below(3));
          const Codec codec = rng.Below(3) == 0 ? Codec::kBfloat16 : Codec::kFloat32;
          const bool too_long = chunk == 2 && rng.Below(4) == 0;
          payloads.push_back(
              PerhapsSpoilt(codec, chunk < 2 || too_long ? floats : floats - 3, &rng));
          ops.push_back({.kind = ChunkOpKind::kMerge,
                         .codec = codec,
                         .chunk = chunk,
                         .in_bytes = static_cast<uint32_t>(payloads.back().size()),
                         .in = payloads.back().data()});
        }
        pair.RunMerges(ops);
        ASSERT_FALSE(testing::Test::HasFailure());
      }
    }
  }
}

TEST(HostExecutor, KeepsAWeightThatAnotherThreadWroteBetweenOperations) {
  Replica replica(351, 351);
  const auto executor = MakeHostExecutor(replica.arrays);
  const std::vector<float> position(351, 2.0f);
  ChunkOp op{.kind = ChunkOpKind::kExchange, .acknowledged = true, .in_bytes = 4 * 351};
  op.in = reinterpret_cast<const std::byte*>(position.data());
  executor->Run({&op, 1});
  std::thread([&] { replica.arrays.weights[200] += 1; }).join();
  executor->Run({&op, 1});
  for (int i = 0; i < 351; ++i) EXPECT_EQ(replica.arrays.weights[i], i == 200 ? 3 : 2);
  EXPECT_EQ(op.result, kRemainder);
}

// ---- Beside solvers ----------------------------------------------------------

ChunkOp ExchangeOf(const std::vector<float>& position) {
  ChunkOp op{.kind = ChunkOpKind::kExchange, .acknowledged = true, .take = true};
  op.in = reinterpret_cast<const std::byte*>(position.data());
  op.in_bytes = static_cast<uint32_t>(4 * position.size());
  return op;
}

TEST(HostExecutor, RefusesToWriteWeightsThatASolverIsIn) {
  for (const ChunkOpKind kind : {ChunkOpKind::kExchange, ChunkOpKind::kTake, ChunkOpKind::kMerge,
                                 ChunkOpKind::kLoad, ChunkOpKind::kDropRest}) {
    Replica replica(700, 350), before(700, 350);
    RangeLock locks(replica.arrays.weights);
    RangeLock::Shared solver(&locks);
    const auto executor = MakeHostExecutor(replica.arrays, {}, {}, BestSimd(), &locks);
    replica.arrays.weights[600] = 5;
    before.CopyFrom(replica);
    const std::vector<float> values(350, 2.0f);
    std::vector<ChunkOp> ops(2, ExchangeOf(values));
    ops[0].kind = ops[1].kind = kind;
    ops[1].chunk = 1;
    solver.Lock(replica.arrays.weights + 500, 50);
    executor->Run(ops);
    EXPECT_EQ(ops[1].result, kBusy) << static_cast<int>(kind);
    EXPECT_EQ(ops[1].out_bytes, 0u);
    EXPECT_EQ(memcmp(&replica.arrays.weights[350], &before.arrays.weights[350], 4 * 350), 0);
    EXPECT_EQ(memcmp(&replica.arrays.base[350], &before.arrays.base[350], 4 * 350), 0);
    EXPECT_EQ(ops[0].result & kRefused, 0);  // the neighbouring chunk
    const bool gets_nothing = kind == ChunkOpKind::kTake || kind == ChunkOpKind::kDropRest;
    EXPECT_EQ(replica.arrays.weights[0], gets_nothing ? 0 : 2);
    solver.Unlock();
    ops[1].in = reinterpret_cast<const std::byte*>(values.data());
    executor->Run({&ops[1], 1});
    EXPECT_EQ(ops[1].result & kRefused, 0);
    EXPECT_TRUE(solver.TryLock(replica.arrays.weights, 700));  // no lock is held afterwards
    solver.Unlock();
  }
}

TEST(HostExecutor, ReadsWeightsThatASolverIsIn) {
  Replica replica(350, 350);
  RangeLock locks(replica.arrays.weights);
  RangeLock::Shared solver(&locks);
  const auto executor = MakeHostExecutor(replica.arrays, {}, {}, BestSimd(), &locks);
  replica.arrays.weights[7] = 3;
  solver.Lock(replica.arrays.weights, 350);
  std::vector<float> out(350);
  ChunkOp read{.kind = ChunkOpKind::kRead, .out_bytes = 4 * 350};
  read.out = reinterpret_cast<std::byte*>(out.data());
  ChunkOp freeze{.kind = ChunkOpKind::kDemote};
  executor->Run({&read, 1});
  executor->Run({&freeze, 1});
  EXPECT_EQ(read.result | freeze.result, 0);
  EXPECT_EQ(out[7], 3);
  EXPECT_EQ(replica.arrays.base[7], 3);
  solver.Unlock();
}

// Each merge examines the payload of the next. A run of merges must not continue into a chunk
// that a solver has locked.
TEST(HostExecutor, MergesARunOfDiffsButForTheChunkThatASolverIsIn) {
  for (const Codec codec : {Codec::kFloat32, Codec::kBfloat16}) {
    constexpr uint32_t kChunks = 120;  // more than one locked range
    Replica replica(350 * kChunks, 350);
    RangeLock locks(replica.arrays.weights);
    RangeLock::Shared solver(&locks);
    const auto executor = MakeHostExecutor(replica.arrays, {}, {}, BestSimd(), &locks);
    std::vector<uint32_t> words(350, codec == Codec::kFloat32 ? 0x3f800000 : 0x3f803f80);  // 1
    std::vector<ChunkOp> ops(kChunks);
    for (uint32_t i = 0; i < kChunks; ++i) {
      ops[i] = {.kind = ChunkOpKind::kMerge, .codec = codec, .chunk = (i + 11) % kChunks};
      ops[i].in = reinterpret_cast<const std::byte*>(words.data());
      ops[i].in_bytes = codec == Codec::kFloat32 ? 1400 : 700;
    }
    solver.Lock(&replica.arrays.weights[350 * 30 + 100], 16);
    executor->Run(ops);
    solver.Unlock();
    for (const ChunkOp& op : ops) {
      EXPECT_EQ(op.result, op.chunk == 30 ? kBusy : 0) << op.chunk;
      const float w = replica.arrays.weights[350 * op.chunk + 200];
      EXPECT_EQ(w, op.chunk == 30 ? 0 : 1) << op.chunk;
    }
  }
}

}  // namespace
}  // namespace millrace
