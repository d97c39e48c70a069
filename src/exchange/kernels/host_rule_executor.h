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

#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_fused_merge.h"
#include "exchange/kernels/host_fused_take.h"
#include "exchange/kernels/host_loops.h"
#include "exchange/kernels/host_payload.h"
#include "exchange/kernels/merge_rule.h"
#include "exchange/kernels/op_lock.h"

namespace millrace {

// True for rules that compute on single vectors, so that loops can apply a codec and the rule to a
// vector at once. Otherwise payloads are packed and unpacked in a pass of their own.
template <typename Rule>
inline constexpr bool kFusesCodecs = MergeRuleType<Rule>;

// Executes one operation at a time. host_executor.h states the requirements for the arguments.
template <typename Rule>
class HostRuleExecutor : public ChunkExecutor {
 public:
  HostRuleExecutor(const ReplicaArrays& arrays, const CodecConfig& codec, const Rule& rule,
                   Simd simd, RangeLock* lock = nullptr)
      : arrays_(arrays),
        chunks_(arrays.chunks()),
        threshold_(codec.threshold),
        rule_(rule),
        simd_(simd),
        lock_(arrays, lock),
        scratch_(new float[arrays.chunk_floats]) {
    CHECK(SimdSupported(simd));
    CHECK(!Rule::kHasState || arrays.rule_state != nullptr);
  }

  void Run(std::span<ChunkOp> ops) override {
    VisitSimd(simd_, [&](auto set) { RunAll(set, ops); });
    lock_.Release();
  }
  const ReplicaArrays& arrays() const override { return arrays_; }

 private:
  template <typename Set>
  void RunAll(Set set, std::span<ChunkOp> ops) {
    while (!ops.empty()) {
      ChunkOp& op = ops.front();
      CHECK_LT(int64_t{op.chunk}, chunks_);
      op.result = 0;
      size_t done = 1;
      if (!lock_.Admits(ops)) {
        Refuse(kBusy, &op);
      } else {
        done = RunFirst(set, ops);
      }
      ops = ops.subspan(done);
    }
  }

  // Executes one or several operations from the front of `ops`. Returns how many.
  template <typename Set>
  size_t RunFirst(Set set, std::span<ChunkOp> ops) {
    if constexpr (kFusesCodecs<Rule>) {
      if (LooksAhead(set, ops[0])) return MergeRun(set, ops);
    }
    if (ops.size() > 1) Prefetch(ops[1]);
    RunOne(set, SpanOf(ops[0]), &ops[0]);
    return 1;
  }

  // Prefetches the payload of the next operation, which starts by reading all of it.
  static void Prefetch(const ChunkOp& op) {
    for (uint32_t i = 0; i < op.in_bytes; i += 64) __builtin_prefetch(op.in + i);
  }

  ChunkSpan SpanOf(const ChunkOp& op) const {
    const int64_t begin = int64_t{op.chunk} * arrays_.chunk_floats;
    const auto from = [begin](float* array) { return array ? array + begin : nullptr; };
    return {from(arrays_.weights), from(arrays_.base), from(arrays_.pending),
            from(arrays_.rule_state), arrays_.floats_of(op.chunk)};
  }

  template <typename Set>
  void RunOne(Set set, const ChunkSpan& chunk, ChunkOp* op) {
    switch (op->kind) {
      case ChunkOpKind::kRead:
        return HogwildExchangeRead(set, chunk, Floats(chunk, op));
      case ChunkOpKind::kExchange:
        return Exchange(set, chunk, op);
      case ChunkOpKind::kTake:
        return Take(set, chunk, chunk.base, op);
      case ChunkOpKind::kEncodePending:
        return Encode(chunk, op);
      case ChunkOpKind::kMerge:
        return Merge(set, chunk, op);
      case ChunkOpKind::kLoad:
        if (!TakesPosition(chunk, op)) return;
        return Reset(set, chunk, FloatsOf(op->in));
      case ChunkOpKind::kReturn:
        return ReturnChunk(set, chunk, Floats(chunk, op));
      case ChunkOpKind::kDemote:
        return Reset(set, chunk, nullptr);
      case ChunkOpKind::kDropRest:
        return HogwildExchangeReset(set, chunk, chunk.base);
    }
  }

  // kLoad, or kDemote without a position. The rule's state belongs to the weights of a master.
  template <typename Set>
  void Reset(Set set, const ChunkSpan& chunk, const float* position) {
    HogwildExchangeReset(set, chunk, position);
    if constexpr (Rule::kHasState) std::fill_n(chunk.rule_state, chunk.count, 0.0f);
  }

  static const float* FloatsOf(const std::byte* payload) {
    return reinterpret_cast<const float*>(payload);
  }

  // Checks that `out` has room for a float32 chunk, sets out_bytes and returns `out`.
  static float* Floats(const ChunkSpan& chunk, ChunkOp* op) {
    const uint32_t bytes = LeastPayloadBytes(Codec::kFloat32, chunk.count);
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

  template <typename Set>
  void Exchange(Set set, const ChunkSpan& chunk, ChunkOp* op) {
    if (!TakesPosition(chunk, op)) return;
    const auto* position = FloatsOf(op->in);
    if (op->take) return Take(set, chunk, position, op);
    const Float32Codec none;
    Finish(op->acknowledged
               ? HogwildExchangeMove<Pending::kCleared>(set, rule_, none, chunk, position, nullptr)
               : HogwildExchangeMove<Pending::kHeld>(set, rule_, none, chunk, position, nullptr),
           0, op);
  }

  template <typename Set>
  void Take(Set set, const ChunkSpan& chunk, const float* position, ChunkOp* op) {
    if (op->share == 1) return Take(set, rule_, chunk, position, op);
    Take(set, Damped(rule_, op->share), chunk, position, op);
  }

  template <typename Set, typename Selecting>
  void Take(Set set, const Selecting& rule, const ChunkSpan& chunk, const float* position,
            ChunkOp* op) {
    const uint32_t bytes = LeastPayloadBytes(op->codec, chunk.count);
    if (op->out != nullptr) CHECK_GE(op->out_bytes, bytes);
    if (op->codec == Codec::kFloat32) {
      auto* out = reinterpret_cast<float*>(op->out);
      return Finish(
          HogwildExchangeMove<Pending::kTaken>(set, rule, Float32Codec{}, chunk, position, out),
          out ? bytes : 0, op);
    }
    CHECK(op->out != nullptr);
    if (op->codec == Codec::kInt8) {
      op->scale = Int8Scale(
          FromBits<float>(HogwildExchangeLargestSelected(set, rule, chunk, Int8Codec::overflow())));
    }
    if constexpr (Set::kLanes >= Avx2::kLanes && kFusesCodecs<Rule>) {
      TakePacked(set, rule, chunk, position, bytes, op);
    } else {
      TakeAndPack(set, rule, chunk, position, op);
    }
  }

  template <typename Set, typename Selecting>
  void TakePacked(Set set, const Selecting& rule, const ChunkSpan& chunk, const float* position,
                  uint32_t bytes, ChunkOp* op) {
    if (op->codec == Codec::kBfloat16) {
      Bfloat16Encoder encoder(op->out);
      return Finish(HogwildExchangeTakeEncoded(set, rule, chunk, position, &encoder), bytes, op);
    }
    if (op->codec == Codec::kInt8) {
      std::memcpy(op->out, &op->scale, sizeof(op->scale));
      Int8Encoder encoder(op->scale, op->out + kInt8ScaleBytes);
      return Finish(HogwildExchangeTakeEncoded(set, rule, chunk, position, &encoder), bytes, op);
    }
    const int64_t room = std::min<int64_t>(op->out_bytes, 4 * chunk.count);
    SparseEncoder encoder(threshold_, chunk.count, op->out, room);
    const MoveResult moved = HogwildExchangeTakeEncoded(Avx2{}, rule, chunk, position, &encoder);
    const uint32_t encoded = encoder.bytes();
    if (moved.taken && encoded == 0) return FinishByEncoding(chunk, moved, op);
    Finish(moved, encoded, op);
  }

  template <typename Set, typename Selecting>
  void TakeAndPack(Set set, const Selecting& rule, const ChunkSpan& chunk, const float* position,
                   ChunkOp* op) {
    const auto move = [&](const auto& codec) {
      const MoveResult moved =
          HogwildExchangeMove<Pending::kTaken>(set, rule, codec, chunk, position, nullptr);
      FinishByEncoding(chunk, moved, op);
    };
    if (op->codec == Codec::kBfloat16) return move(Bfloat16Codec{});
    if (op->codec == Codec::kInt8) return move(Int8Codec{op->scale});
    move(SparseCodec{threshold_});
  }

  // Sets the results of a move that wrote `bytes` of payload.
  static void Finish(const MoveResult& moved, uint32_t bytes, ChunkOp* op) {
    op->result =
        static_cast<uint8_t>((moved.taken ? kNonZero : 0) | (moved.remainder ? kRemainder : 0));
    op->out_codec = op->codec;
    op->out_bytes = moved.taken ? bytes : 0;
  }

  // The same; then encodes the diff from `pending`.
  void FinishByEncoding(const ChunkSpan& chunk, const MoveResult& moved, ChunkOp* op) {
    const uint32_t room = op->out_bytes;
    Finish(moved, room, op);
    if (moved.taken) Encode(chunk, op);
  }

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
  template <typename Set>
  static bool LooksAhead(Set, const ChunkOp& op) {
    return op.kind == ChunkOpKind::kMerge &&
           (op.codec == Codec::kFloat32 ||
            (op.codec == Codec::kBfloat16 && Set::kLanes >= Avx2::kLanes &&
             op.in_bytes >= LeastPayloadBytes(op.codec, kLeastToLookAhead)));
  }

  // Executes such a merge and the similar ones that follow, up to the first invalid payload or
  // refused lock. Returns the number of operations executed.
  template <typename Set>
  size_t MergeRun(Set set, std::span<ChunkOp> ops) {
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
      const ChunkSpan chunk = SpanOf(op);
      const bool finite =
          codec == Codec::kFloat32
              ? HogwildExchangeMergeAhead(set, rule_, chunk, FloatsOf(op.in), op.staleness,
                                          FloatsOf(ahead))
              : HogwildExchangeMergeBfloat16(rule_, chunk, op.in, op.staleness, ahead);
      if (!alike || !finite || !lock_.Admits(ops.subspan(i + 1))) return i + 1;
      next->result = 0;
    }
  }

  template <typename Set>
  void Merge(Set set, const ChunkSpan& chunk, ChunkOp* op) {
    op->result = CheckPayload(op->codec, op->in, op->in_bytes, chunk.count, simd_);
    if (op->result != 0) return;
    if (Rule::kZeroChangesNothing && op->codec == Codec::kSparse) {
      return MergeSparse(set, chunk, op);
    }
    if constexpr (Set::kLanes >= Avx2::kLanes && kFusesCodecs<Rule>) {
      if (op->codec == Codec::kInt8) {
        float scale;
        std::memcpy(&scale, op->in, sizeof(scale));
        return HogwildExchangeMergeInt8(rule_, chunk, scale, op->in + kInt8ScaleBytes,
                                        op->staleness);
      }
    }
    const float* values = DecodePayload(op->codec, op->in, chunk.count, scratch_.get());
    HogwildExchangeMerge(set, rule_, chunk, values, op->staleness);
  }

  template <typename Set>
  void MergeSparse(Set, const ChunkSpan& chunk, const ChunkOp* op) {
    using Fused = std::conditional_t<(Set::kLanes >= Avx2::kLanes), Avx2, Sse>;
    const auto* values = FloatsOf(op->in + SparseBitmapBytes(chunk.count));
    const auto* end = FloatsOf(op->in + op->in_bytes);
    HogwildExchangeMergeSparse(Fused{}, rule_, chunk, {op->in, values, end}, op->staleness);
  }

  const ReplicaArrays arrays_;
  const int64_t chunks_;
  const float threshold_;
  const Rule rule_;
  const Simd simd_;
  OpLock lock_;
  const std::unique_ptr<float[]> scratch_;  // holds a decoded diff
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_RULE_EXECUTOR_H_
