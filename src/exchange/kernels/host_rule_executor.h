// Host executor for one merge rule: a struct (merge_rule.h), for which RegisterHostRule
// (register_host_rule.h) instantiates it, or SpanRule (span_rule.h). Tests also instantiate it with
// their own rules. Host code only.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_RULE_EXECUTOR_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_RULE_EXECUTOR_H_

#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "exchange/kernels/alignment.h"
#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_loops.h"
#include "exchange/kernels/host_payload.h"
#include "exchange/kernels/op_lock.h"
#include "exchange/kernels/rules/merge_rule.h"
#include "exchange/kernels/sparse_choice.h"

namespace millrace::inline exchange {

// Executes one operation at a time. host_executor.h states the requirements for the arguments.
template <typename Rule>
class HostRuleExecutor : public ChunkExecutor {
 public:
  HostRuleExecutor(const ReplicaArrays& arrays, const CodecConfig& codec, const Rule& rule,
                   Simd simd, RangeLock* lock = nullptr)
      : arrays_(arrays),
        chunks_(arrays.chunks()),
        codec_(codec),
        rule_(rule),
        state_floats_(StateFloatsOf(rule)),
        simd_(simd),
        lock_(arrays, lock),
        scratch_(new float[arrays.chunk_floats]),
        rounds_(codec.choice == SparseChoice::kRandom ? static_cast<size_t>(chunks_) : 0) {
    CHECK(SimdSupported(simd));
    CHECK(state_floats_ == 0 || arrays.rule_state != nullptr);
  }

  void Run(std::span<ChunkOp> ops) override {
    VisitTarget(simd_, [&](auto target) { RunAll(target, ops); });
    lock_.Release();
  }
  const ReplicaArrays& arrays() const override { return arrays_; }

 private:
  template <typename Target>
  void RunAll(Target target, std::span<ChunkOp> ops) {
    while (!ops.empty()) {
      ChunkOp& op = ops.front();
      CHECK_LT(int64_t{op.chunk}, chunks_);
      op.result = 0;
      size_t done = 1;
      if (!lock_.Admits(ops)) {
        Refuse(kBusy, &op);
      } else {
        done = RunFirst(target, ops);
      }
      ops = ops.subspan(done);
    }
  }

  // Executes one or several operations from the front of `ops`. Returns how many.
  template <typename Target>
  size_t RunFirst(Target target, std::span<ChunkOp> ops) {
    if constexpr (MergeRuleType<Rule>) {
      if (LooksAhead(ops[0])) return MergeRun(target, ops);
    }
    if (ops.size() > 1) Prefetch(ops[1]);
    RunOne(target, SpanOf(ops[0]), &ops[0]);
    return 1;
  }

  // Prefetches the payload of the next operation, which starts by reading all of it.
  static void Prefetch(const ChunkOp& op) {
    for (uint32_t i = 0; i < op.in_bytes; i += 64) __builtin_prefetch(op.in + i);
  }

  ChunkSpan SpanOf(const ChunkOp& op) const {
    const int64_t begin = int64_t{op.chunk} * arrays_.chunk_floats;
    const auto from = [begin](float* array) { return array ? array + begin : nullptr; };
    return {from(arrays_.weights),    from(arrays_.base), from(arrays_.pending),
            from(arrays_.rule_state), arrays_.size,       arrays_.floats_of(op.chunk)};
  }

  template <typename Target>
  void RunOne(Target target, const ChunkSpan& chunk, ChunkOp* op) {
    switch (op->kind) {
      case ChunkOpKind::kRead:
        return HogwildExchangeRead(target, chunk, Floats(chunk, op));
      case ChunkOpKind::kExchange:
        return Exchange(target, chunk, op);
      case ChunkOpKind::kTake:
        return Take(target, chunk, chunk.base, NextSeed(*op), op);
      case ChunkOpKind::kEncodePending:
        return Encode(chunk, op);
      case ChunkOpKind::kMerge:
        return Merge(target, chunk, op);
      case ChunkOpKind::kMergeOwn:
        return MergeOwn(target, chunk, op);
      case ChunkOpKind::kTakeBack:
        ReturnChunk(target, chunk, chunk.base);
        std::fill_n(chunk.pending, chunk.count, 0.0f);
        return ClearState(chunk);
      case ChunkOpKind::kLoad:
        if (!TakesPosition(chunk, op)) return;
        return Reset(target, chunk, FloatsOf(op->in));
      case ChunkOpKind::kReturn:
        return ReturnChunk(target, chunk, Floats(chunk, op));
      case ChunkOpKind::kDemote:
        return Reset(target, chunk, nullptr);
      case ChunkOpKind::kDropRest:
        return HogwildExchangeReset(target, chunk, chunk.base);
    }
  }

  // kLoad, or kDemote without a position. The rule's state belongs to the weights of a master.
  template <typename Target>
  void Reset(Target target, const ChunkSpan& chunk, const float* position) {
    HogwildExchangeReset(target, chunk, position);
    ClearState(chunk);
  }

  void ClearState(const ChunkSpan& chunk) {
    for (int k = 0; k < state_floats_; ++k) {
      std::fill_n(chunk.rule_state + k * chunk.state_stride, chunk.count, 0.0f);
    }
  }

  template <typename Target>
  void MergeOwn(Target target, const ChunkSpan& chunk, ChunkOp* op) {
    if constexpr (kMergesOwn<Rule>) {
      HogwildExchangeMergeOwn(target, Merging(rule_, op->share), chunk,
                              op->out ? Floats(chunk, op) : nullptr);
    } else {
      LOG(FATAL) << "a rule without kMergesOwn has no kMergeOwn";
    }
  }

  static const float* FloatsOf(const std::byte* payload) {
    return reinterpret_cast<const float*>(payload);
  }

  // Checks that `out` has room for a float32 chunk, sets out_bytes and returns `out`.
  static float* Floats(const ChunkSpan& chunk, ChunkOp* op) {
    const uint32_t bytes = MinPayloadBytes(Codec::kFloat32, chunk.count);
    CHECK_GE(op->out_bytes, bytes);
    op->out_bytes = bytes;
    return reinterpret_cast<float*>(op->out);
  }

  // Validates `in` as a position; refuses the operation if it is not valid.
  bool TakesPosition(const ChunkSpan& chunk, ChunkOp* op) const {
    const uint8_t result = CheckPayload(Codec::kFloat32, op->in, op->in_bytes, chunk.count, simd_);
    if (result != 0) Refuse(result, op);
    return result == 0;
  }

  // Marks the operation as not performed.
  static void Refuse(uint8_t why, ChunkOp* op) {
    op->result = why;
    op->out_bytes = 0;
  }

  template <typename Target>
  void Exchange(Target target, const ChunkSpan& chunk, ChunkOp* op) {
    const uint32_t seed = op->take ? NextSeed(*op) : 0;
    if (!TakesPosition(chunk, op)) return;
    const auto* position = FloatsOf(op->in);
    if (op->take) return Take(target, chunk, position, seed, op);
    op->acknowledged ? MoveOnly<Pending::kCleared>(target, chunk, position, op)
                     : MoveOnly<Pending::kHeld>(target, chunk, position, op);
  }

  // Takes no diff.
  template <Pending kPending, typename Target>
  void MoveOnly(Target target, const ChunkSpan& chunk, const float* position, ChunkOp* op) {
    Float32Encoder none{nullptr, {}};
    Finish(HogwildExchangeMove<kPending>(target, rule_, chunk, position, &none), 0, op);
  }

  // For the choice of elements. Each take of a chunk has another, in the same order everywhere.
  uint32_t NextSeed(const ChunkOp& op) {
    if (op.codec != Codec::kSparse || rounds_.empty()) return 0;
    return ChoiceSeed(op.chunk, rounds_[op.chunk]++);
  }

  template <typename Target>
  void Take(Target target, const ChunkSpan& chunk, const float* position, uint32_t seed,
            ChunkOp* op) {
    if (op->drop_rest) return TakeLast(target, chunk, position, op);
    if (op->share == 1) return Take(target, rule_, chunk, position, seed, op);
    Take(target, Damped(rule_, op->share), chunk, position, seed, op);
  }

  // Takes a share and drops the rest.
  template <typename Target>
  void TakeLast(Target target, const ChunkSpan& chunk, const float* position, ChunkOp* op) {
    CHECK(op->codec == Codec::kFloat32);
    float* const out = op->out ? Floats(chunk, op) : nullptr;
    Float32Encoder encoder{out, {}};
    const MoveResult moved = HogwildExchangeMove<Pending::kTaken>(
        target, Dropping(rule_, op->share), chunk, position, &encoder);
    Finish(moved, out ? op->out_bytes : 0, op);
  }

  template <typename Target, typename Selecting>
  void Take(Target target, const Selecting& rule, const ChunkSpan& chunk, const float* position,
            uint32_t seed, ChunkOp* op) {
    const uint32_t bytes = MinPayloadBytes(op->codec, chunk.count);
    if (op->out != nullptr) CHECK_GE(op->out_bytes, bytes);
    const auto move = [&](auto encoder) {
      const MoveResult moved =
          HogwildExchangeMove<Pending::kTaken>(target, rule, chunk, position, &encoder);
      Finish(moved, op->out ? bytes : 0, op);
      return encoder;
    };
    if (op->codec == Codec::kFloat32) {
      move(Float32Encoder{reinterpret_cast<float*>(op->out), {}});
      return;
    }
    CHECK(op->out != nullptr);
    if (op->codec == Codec::kBfloat16) {
      move(Bfloat16Encoder{op->out, {}});
    } else if (op->codec == Codec::kInt8) {
      op->scale = Int8Scale(FromBits<float>(
          HogwildExchangeLargestSelected(target, rule, chunk, position, Int8Codec{})));
      std::memcpy(op->out, &op->scale, sizeof(op->scale));
      move(Int8Encoder{op->out + kInt8ScaleBytes, {op->scale}});
    } else if (op->codec == Codec::kInt4) {
      HogwildExchangeMagnitudes(target, rule, chunk, position);
      FindInt4Scales(chunk);
      move(Int4Rounder{scratch_.get(), {}});
      if (op->out_bytes != 0) Encode(chunk, op);
    } else if (!Choose(target, rule, chunk, position, seed)) {
      MoveOnly<Pending::kCleared>(target, chunk, position, op);
    } else {
      const int64_t dense = 4 * chunk.count, room = op->out_bytes;
      const auto finish = [&](SparseEncoder encoder) {
        if (op->out_bytes == 0) return;  // nothing is taken
        encoder.Finish(chunk.pending, chunk.count);
        op->out_bytes = static_cast<uint32_t>(room);
        if (encoder.at >= dense) return Encode(chunk, op);
        CHECK_LE(encoder.at, room);
        op->out_bytes = static_cast<uint32_t>(encoder.at);
      };
      std::byte* const out = op->out;
      if (codec_.choice == SparseChoice::kThreshold) {
        finish(move(SparseEncoder(out, std::min(room, dense), chunk.count, codec_.threshold)));
      } else {
        finish(move(ChosenEncoder(out, std::min(room, dense), chunk.count, chunk.pending)));
      }
    }
  }

  // Writes the scales of the blocks to the scratch. `pending` has magnitudes.
  void FindInt4Scales(const ChunkSpan& chunk) {
    for (int64_t begin = 0; begin < chunk.count; begin += kInt4Block) {
      float largest = 0;
      for (int64_t i = begin; i < std::min(begin + kInt4Block, chunk.count); ++i) {
        const bool counts = Magnitude(chunk.pending[i]) < Int4Codec::overflow();
        if (counts) largest = std::max(largest, chunk.pending[i]);
      }
      scratch_[begin / kInt4Block] = Int4Scale(largest);
    }
  }

  // Writes the choice of elements of a sparse diff to `pending`, which is free, unless a threshold
  // makes it. Returns false if the diff is empty and the rule must not see it.
  template <typename Target, typename Selecting>
  bool Choose(Target target, const Selecting& rule, const ChunkSpan& chunk, const float* position,
              uint32_t seed) {
    if (codec_.choice == SparseChoice::kThreshold) {
      if constexpr (!kChangesUnsent<Rule>) return true;
      const int32_t largest =
          HogwildExchangeLargestSelected(target, rule, chunk, position, SparseCodec{});
      return FromBits<float>(largest) >= codec_.threshold;
    }
    HogwildExchangeMagnitudes(target, rule, chunk, position);
    const int64_t chosen = ChooseElements(codec_.choice, codec_.share, seed, chunk.count,
                                          reinterpret_cast<ChoiceWord*>(chunk.pending));
    return chosen > 0 || !kChangesUnsent<Rule>;
  }

  // Sets the results of a move that wrote `bytes` of payload.
  static void Finish(const MoveResult& moved, uint32_t bytes, ChunkOp* op) {
    op->result =
        static_cast<uint8_t>((moved.taken ? kNonZero : 0) | (moved.remainder ? kRemainder : 0));
    op->out_codec = op->codec;
    op->out_bytes = moved.taken ? bytes : 0;
  }

  // Encodes `pending`.
  void Encode(const ChunkSpan& chunk, ChunkOp* op) {
    if (op->out == nullptr) {
      CHECK(op->codec == Codec::kFloat32);
      op->out_codec = Codec::kFloat32;
      op->out_bytes = 0;
      return;
    }
    const Encoded encoded = EncodePayload(op->codec, chunk.pending, chunk.count, op->scale, op->out,
                                          op->out_bytes, simd_);
    op->out_codec = encoded.codec;
    op->out_bytes = encoded.bytes;
  }

  // True for a merge that can validate the payload of the next merge during its own pass.
  static bool LooksAhead(const ChunkOp& op) {
    return op.kind == ChunkOpKind::kMerge &&
           (op.codec == Codec::kFloat32 || op.codec == Codec::kBfloat16);
  }

  // Executes such a merge and the similar ones that follow, up to the first invalid payload or
  // refused lock. Returns the number of operations executed.
  template <typename Target>
  size_t MergeRun(Target target, std::span<ChunkOp> ops) {
    const Codec codec = ops[0].codec;
    const uint32_t bytes = ops[0].in_bytes;
    const int64_t count = arrays_.floats_of(ops[0].chunk);
    ops[0].result = CheckPayload(codec, ops[0].in, bytes, count, simd_);
    if (ops[0].result != 0) return 1;
    for (size_t i = 0;; ++i) {
      const ChunkOp& op = ops[i];
      ChunkOp* next = i + 1 < ops.size() ? &ops[i + 1] : nullptr;
      const bool alike = next != nullptr && next->kind == ChunkOpKind::kMerge &&
                         next->codec == codec && next->in_bytes == bytes && next->chunk < chunks_ &&
                         arrays_.floats_of(next->chunk) == count;
      if (next != nullptr && !alike) Prefetch(*next);
      const std::byte* ahead = alike ? next->in : op.in;
      const bool finite =
          codec == Codec::kFloat32
              ? MergeAhead(target, op, Float32Payload(op.in), Float32Payload(ahead))
              : MergeAhead(target, op, Bfloat16Payload(op.in), Bfloat16Payload(ahead));
      if (!alike || !finite || !lock_.Admits(ops.subspan(i + 1))) return i + 1;
      next->result = 0;
    }
  }

  template <typename Target, typename Payload>
  bool MergeAhead(Target target, const ChunkOp& op, const Payload& diff, const Payload& next) {
    const ChunkSpan chunk = SpanOf(op);
    return HogwildExchangeMergeAhead(target, MergingRule(target, op, chunk, diff), chunk, diff,
                                     op.staleness, next);
  }

  // The rule that merges this diff.
  template <typename Target, typename Payload>
  Rule MergingRule([[maybe_unused]] Target target, const ChunkOp& op,
                   [[maybe_unused]] const ChunkSpan& chunk,
                   [[maybe_unused]] const Payload& diff) const {
    const Rule rule = Merging(rule_, op.share);
    if constexpr (kAligns<Rule>) {
      static_assert(!Rule::kZeroChangesNothing);
      AlignmentSums sums = {};
      SumAlignment(target, chunk, diff, &sums);
      return AlignedBy(rule, sums);
    }
    return rule;
  }

  template <typename Target>
  void Merge(Target target, const ChunkSpan& chunk, ChunkOp* op) {
    op->result = CheckPayload(op->codec, op->in, op->in_bytes, chunk.count, simd_);
    if (op->result != 0) return;
    const auto merge = [&](const auto& diff) {
      HogwildExchangeMerge(target, MergingRule(target, *op, chunk, diff), chunk, diff,
                           op->staleness);
    };
    if (op->codec == Codec::kBfloat16) return merge(Bfloat16Payload(op->in));
    if (op->codec == Codec::kInt8) return merge(Int8Payload(op->in));
    if (op->codec == Codec::kFloat32) return merge(Float32Payload(op->in));
    if (op->codec == Codec::kInt4) {
      DecodeWeights(Codec::kInt4, op->in, chunk.count, scratch_.get(), simd_);
      return merge(Float32Payload(reinterpret_cast<const std::byte*>(scratch_.get())));
    }
    if constexpr (Rule::kZeroChangesNothing) {
      const SparsePayload diff(op->in, op->in_bytes, chunk.count);
      HogwildExchangeMergeSparse(target, Merging(rule_, op->share), chunk, diff, op->staleness);
    } else {
      DecodeSparse(op->in, op->in_bytes, chunk.count, scratch_.get());
      merge(Float32Payload(reinterpret_cast<const std::byte*>(scratch_.get())));
    }
  }

  const ReplicaArrays arrays_;
  const int64_t chunks_;
  const CodecConfig codec_;
  const Rule rule_;
  const int state_floats_;
  const Simd simd_;
  OpLock lock_;
  const std::unique_ptr<float[]> scratch_;  // holds a decoded diff, or the scales of int4
  std::vector<uint32_t> rounds_;            // by chunk: takes with a random choice
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_RULE_EXECUTOR_H_
