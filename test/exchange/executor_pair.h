// An executor beside the reference executor: the same operations on equal replicas must give equal
// bits.
#ifndef MILLRACE_TEST_EXCHANGE_EXECUTOR_PAIR_H_
#define MILLRACE_TEST_EXCHANGE_EXECUTOR_PAIR_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "exchange/kernels/codec_config.h"
#include "test/exchange/reference_executor.h"
#include "test/exchange/replica.h"

namespace millrace::test {

inline constexpr int64_t kSizes[] = {1,  2,  3,  7,  8,  9,   15,  16,  17, 31,
                                     32, 33, 63, 64, 65, 127, 349, 350, 351};

// A host executor and the reference executor on replicas with equal content.
class ExecutorPair {
 public:
  using Make = std::function<std::unique_ptr<ChunkExecutor>(const ReplicaArrays& arrays)>;

  // `make_host` makes the executor under test.
  ExecutorPair(int64_t size, int64_t chunk_floats, const Make& make_host,
               const Make& make_reference)
      : host_(size, chunk_floats), reference_(size, chunk_floats) {
    host_executor_ = make_host(host_.arrays);
    reference_executor_ = make_reference(reference_.arrays);
  }
  Replica& host() { return host_; }
  void Scatter(float step, Rng* rng) {
    test::Scatter(&host_, step, rng);
    reference_.CopyFrom(host_);
  }
  // Solvers make the same steps on both sides.
  void Progress(float step, Rng* rng) {
    for (int64_t i = 0; i < host_.arrays.size; ++i) {
      host_.arrays.weights[i] += step * rng->Gaussian();
    }
    reference_.CopyFrom(host_);
  }

  // Runs `op` on every chunk with both executors. Arrays, results and output must be equal.
  // Returns the executed operations.
  std::vector<ChunkOp> Run(ChunkOp op, const std::vector<std::vector<std::byte>>& in = {},
                           bool with_out = true) {
    const auto chunks = static_cast<size_t>(host_.arrays.chunks());
    std::vector<ChunkOp> ops(chunks, op), expected(chunks, op);
    outs_.clear();
    std::vector<Guarded> expected_outs, ins;
    for (uint32_t i = 0; i < chunks; ++i) {
      const uint32_t room = MaxPayloadBytes(host_.arrays.floats_of(i));
      outs_.emplace_back(room);
      expected_outs.emplace_back(room);
      ins.emplace_back(in.empty() ? 0 : static_cast<int64_t>(in[i].size()));
      if (!in.empty()) std::copy(in[i].begin(), in[i].end(), ins[i].data());
    }
    for (uint32_t i = 0; i < chunks; ++i) {
      ops[i].chunk = expected[i].chunk = i;
      ops[i].out_bytes = expected[i].out_bytes = static_cast<uint32_t>(outs_[i].bytes());
      ops[i].in = expected[i].in = ins[i].data();
      ops[i].in_bytes = expected[i].in_bytes = static_cast<uint32_t>(ins[i].bytes());
      ops[i].out = with_out ? outs_[i].data() : nullptr;
      expected[i].out = with_out ? expected_outs[i].data() : nullptr;
    }
    host_executor_->Run(ops);
    reference_executor_->Run(expected);
    for (uint32_t i = 0; i < chunks; ++i) Compare(ops[i], expected[i], outs_[i], expected_outs[i]);
    EXPECT_TRUE(host_.Equals(reference_));
    EXPECT_TRUE(host_.GuardsIntact());
    return ops;
  }

  // The same for a batch of merges on any chunks.
  void RunMerges(std::vector<ChunkOp> ops) {
    std::vector<ChunkOp> expected = ops;
    host_executor_->Run(ops);
    reference_executor_->Run(expected);
    for (size_t i = 0; i < ops.size(); ++i) EXPECT_EQ(ops[i].result, expected[i].result) << i;
    EXPECT_TRUE(host_.Equals(reference_));
    EXPECT_TRUE(host_.GuardsIntact());
  }

  std::vector<std::byte> Out(const ChunkOp& op) const {
    return {outs_[op.chunk].data(), outs_[op.chunk].data() + op.out_bytes};
  }

 private:
  static void Compare(const ChunkOp& op, const ChunkOp& expected, const Guarded& out,
                      const Guarded& expected_out) {
    EXPECT_EQ(op.result, expected.result);
    if (op.kind == ChunkOpKind::kMerge || op.kind == ChunkOpKind::kLoad ||
        op.kind == ChunkOpKind::kDemote || op.kind == ChunkOpKind::kTakeBack) {
      return;
    }
    EXPECT_EQ(op.out_bytes, expected.out_bytes);
    EXPECT_EQ(op.out_codec, expected.out_codec);
    EXPECT_EQ(op.scale, expected.scale);
    EXPECT_EQ(memcmp(out.data(), expected_out.data(), op.out_bytes), 0);
    EXPECT_TRUE(out.Intact());
  }

  Replica host_, reference_;
  std::unique_ptr<ChunkExecutor> host_executor_;
  std::unique_ptr<ChunkExecutor> reference_executor_;
  std::vector<Guarded> outs_;
};

// Payloads of random floats for every chunk.
inline std::vector<std::vector<std::byte>> Positions(const ReplicaArrays& arrays, Rng* rng) {
  std::vector<std::vector<std::byte>> all;
  for (uint32_t i = 0; i < arrays.chunks(); ++i) {
    std::vector<float> values(arrays.floats_of(i));
    for (float& value : values) value = AnyValue(rng);
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    all.emplace_back(bytes, bytes + 4 * values.size());
  }
  return all;
}

// Each size as the only chunk, and half of it as the short last chunk after two others.
template <typename Body>
void ForEveryShape(Body body) {
  for (Simd simd : SupportedSimd()) {
    for (const CodecConfig& codec : kAllCodecConfigs) {
      for (int64_t size : kSizes) {
        SCOPED_TRACE(testing::Message() << "simd " << static_cast<int>(simd) << " codec "
                                        << CodecName(codec) << " size " << size);
        body(simd, codec, size, size);
        body(simd, codec, 2 * size + (size + 1) / 2, size);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

// A worker's sequence of operations: diffs taken, sent again, acknowledged or not.
inline void LiveLikeTheReference(ExecutorPair* pair, Codec codec, Rng* rng) {
  ChunkOp take{.kind = ChunkOpKind::kTake, .codec = codec};
  ChunkOp exchange{.kind = ChunkOpKind::kExchange, .codec = codec};
  take.share = exchange.share = rng->Below(2) == 0 ? 1 : 0.37f;
  pair->Scatter(1, rng);
  const std::vector<ChunkOp> taken = pair->Run(take);
  if (taken[0].result & kNonZero) {
    ChunkOp again{.kind = ChunkOpKind::kEncodePending, .codec = taken[0].out_codec};
    again.scale = taken[0].scale;
    if (taken.size() == 1) pair->Run(again);
  }
  pair->Progress(1, rng);
  pair->Run(exchange, Positions(pair->host().arrays, rng));
  exchange.acknowledged = true;
  pair->Run(exchange, Positions(pair->host().arrays, rng));
  exchange.take = true;
  pair->Progress(1e-3f, rng);
  pair->Run(exchange, Positions(pair->host().arrays, rng));
  pair->Run(exchange, Positions(pair->host().arrays, rng));
  if (codec == Codec::kFloat32) {
    exchange.drop_rest = take.drop_rest = true;
    pair->Progress(1, rng);
    pair->Run(exchange, Positions(pair->host().arrays, rng));
    pair->Progress(1, rng);
    pair->Run(take);
    exchange.drop_rest = false;
  }
  pair->Run({.kind = ChunkOpKind::kReturn});
  pair->Run({.kind = ChunkOpKind::kRead});
  pair->Run({.kind = ChunkOpKind::kDemote});
  pair->Run(exchange, Positions(pair->host().arrays, rng));
  pair->Run({.kind = ChunkOpKind::kLoad}, Positions(pair->host().arrays, rng));
  pair->Progress(1, rng);
  pair->Run({.kind = ChunkOpKind::kDropRest});
}

// A worker's diffs of `codec`, merged by a master that becomes a worker and a master again.
inline void MergeLikeTheReference(ExecutorPair* worker, ExecutorPair* master, Codec codec,
                                  Rng* rng) {
  worker->Scatter(1, rng);
  master->Scatter(1, rng);
  for (uint32_t staleness : {0u, 3u, 0u}) {
    const auto taken = worker->Run({.kind = ChunkOpKind::kTake, .codec = codec});
    for (Codec out : kAllCodecs) {
      std::vector<std::vector<std::byte>> in;
      for (const ChunkOp& op : taken) in.push_back(worker->Out(op));
      // Payloads of another codec are refused, by both.
      ChunkOp merge{.kind = ChunkOpKind::kMerge, .codec = out, .staleness = staleness};
      merge.share = 0.3f;
      master->Run(merge, in);
    }
    worker->Run({.kind = ChunkOpKind::kLoad}, Positions(worker->host().arrays, rng));
    worker->Progress(1, rng);
    if (staleness == 3) master->Run({.kind = ChunkOpKind::kDemote});
  }
}

// A new master, with a diff that it has sent as a worker, merges its own progress.
inline void MergeOwnLikeTheReference(ExecutorPair* master, Rng* rng) {
  master->Scatter(1, rng);
  master->Run({.kind = ChunkOpKind::kTake});
  for (int round = 0; round < 3; ++round) {
    master->Progress(1, rng);
    ChunkOp own{.kind = ChunkOpKind::kMergeOwn};
    own.share = 0.3f;
    master->Run(own);
  }
  master->Progress(1, rng);
  master->Run({.kind = ChunkOpKind::kTake});
  master->Run({.kind = ChunkOpKind::kTakeBack});
  master->Run({.kind = ChunkOpKind::kReturn});
  master->Run({.kind = ChunkOpKind::kRead});
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_EXCHANGE_EXECUTOR_PAIR_H_
