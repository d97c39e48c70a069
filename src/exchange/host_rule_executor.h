// The host executor of one merge rule: what host_executor.h makes, and what a test
// instantiates with a rule of its own. Host code only.
#ifndef MILLRACE_EXCHANGE_HOST_RULE_EXECUTOR_H_
#define MILLRACE_EXCHANGE_HOST_RULE_EXECUTOR_H_

#include <glog/logging.h>

#include <cstring>
#include <memory>

#include "exchange/codec.h"
#include "exchange/host_fused_merge.h"
#include "exchange/host_loops.h"
#include "exchange/host_payload.h"
#include "exchange/merge_rule.h"

namespace millrace {

// One operation at a time; see host_executor.h for what the arguments promise.
template <MergeRuleType Rule>
class HostRuleExecutor : public ChunkExecutor {
 public:
  HostRuleExecutor(const ReplicaArrays& arrays, const CodecConfig& codec, const Rule& rule,
                   Simd simd)
      : arrays_(arrays),
        threshold_(codec.threshold),
        rule_(rule),
        simd_(simd),
        scratch_(new float[arrays.chunk_floats]) {
    CHECK(SimdSupported(simd));
    CHECK(!Rule::kHasState || arrays.rule_state != nullptr);
  }

  void Run(std::span<ChunkOp> ops) override {
    switch (simd_) {
      case Simd::kAvx512:
        return RunAll(Avx512{}, ops);
      case Simd::kAvx2:
        return RunAll(Avx2{}, ops);
      case Simd::kBaseline:
        return RunAll(Sse{}, ops);
    }
  }
  const ReplicaArrays& arrays() const override { return arrays_; }

 private:
  template <typename Set>
  void RunAll(Set set, std::span<ChunkOp> ops) {
    for (ChunkOp& op : ops) {
      CHECK_LT(int64_t{op.chunk}, arrays_.chunks());
      op.result = 0;
      RunOne(set, SpanOf(op.chunk), &op);
    }
  }

  ChunkSpan SpanOf(uint32_t chunk) const {
    const int64_t begin = int64_t{chunk} * arrays_.chunk_floats;
    const auto from = [begin](float* array) { return array ? array + begin : nullptr; };
    return {from(arrays_.weights), from(arrays_.base), from(arrays_.pending),
            from(arrays_.rule_state), arrays_.floats_of(chunk)};
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
      case ChunkOpKind::kAdopt:
        if (!TakesPosition(set, chunk, op)) return;
        return HogwildExchangeSettle(set, chunk, reinterpret_cast<const float*>(op->in));
      case ChunkOpKind::kReturn:
        return ReturnChunk(set, chunk, Floats(chunk, op));
      case ChunkOpKind::kFreeze:
        return HogwildExchangeSettle(set, chunk, nullptr);
    }
  }

  // Where a chunk of float32 is written.
  static float* Floats(const ChunkSpan& chunk, ChunkOp* op) {
    const uint32_t bytes = LeastPayloadBytes(Codec::kFloat32, chunk.count);
    CHECK_GE(op->out_bytes, bytes);
    op->out_bytes = bytes;
    return reinterpret_cast<float*>(op->out);
  }

  static bool HasPositionSize(const ChunkSpan& chunk, const ChunkOp* op) {
    return op->in_bytes == LeastPayloadBytes(Codec::kFloat32, chunk.count);
  }

  // Whether `in` is a position; sets the result if not.
  template <typename Set>
  static bool TakesPosition(Set set, const ChunkSpan& chunk, ChunkOp* op) {
    if (!HasPositionSize(chunk, op)) {
      Refuse(kMalformed, op);
    } else if (LargestMagnitude(set, reinterpret_cast<const float*>(op->in), chunk.count) >=
               kInfinityBits) {
      Refuse(kNonFinite, op);
    }
    return op->result == 0;
  }

  // Nothing is done, and nothing written.
  static void Refuse(uint8_t why, ChunkOp* op) {
    op->result = why;
    op->out_bytes = 0;
  }

  template <typename Set>
  void Exchange(Set set, const ChunkSpan& chunk, ChunkOp* op) {
    const auto* position = reinterpret_cast<const float*>(op->in);
    if (op->take) {
      if (!HasPositionSize(chunk, op)) return Refuse(kMalformed, op);
      return Take(set, chunk, position, op);
    }
    if (!TakesPosition(set, chunk, op)) return;
    const Float32Codec none;
    const Moved moved =
        op->acknowledged ? HogwildExchangeMove<Pending::kCleared>(set, rule_, none, chunk, position)
                         : HogwildExchangeMove<Pending::kHeld>(set, rule_, none, chunk, position);
    Finish(chunk, moved, op);
  }

  template <typename Set>
  void Take(Set set, const ChunkSpan& chunk, const float* position, ChunkOp* op) {
    if (op->out != nullptr) PrefetchForWrite(op->out, LeastPayloadBytes(op->codec, chunk.count));
    const Looked looked = HogwildExchangeLook(set, rule_, chunk, position);
    if (looked.largest_position >= kInfinityBits) return Refuse(kNonFinite, op);
    const int32_t largest = looked.largest_offer;
    switch (op->codec) {
      case Codec::kFloat32:
        return TakeBy(set, Float32Codec{}, chunk, position, largest, op);
      case Codec::kBfloat16:
        return TakeBy(set, Bfloat16Codec{}, chunk, position, largest, op);
      case Codec::kInt8:
        // Infinite, and so not safe, if `largest` is not finite.
        op->scale = Int8Scale(FromBits<float>(largest));
        if (!Int8ScaleIsSafe(op->scale)) return Refuse(kNonFinite, op);
        return TakeBy(set, Int8Codec{op->scale}, chunk, position, largest, op);
      case Codec::kSparse:
        return TakeBy(set, SparseCodec{threshold_}, chunk, position, largest, op);
    }
  }

  template <typename Set, typename ElementCodec>
  void TakeBy(Set set, const ElementCodec& codec, const ChunkSpan& chunk, const float* position,
              int32_t largest, ChunkOp* op) {
    if (largest >= codec.overflow()) return Refuse(kNonFinite, op);
    Finish(chunk, HogwildExchangeMove<Pending::kTaken>(set, rule_, codec, chunk, position), op);
  }

  // Sets the results of a move, and writes the difference that was taken.
  void Finish(const ChunkSpan& chunk, const Moved& moved, ChunkOp* op) {
    op->result =
        static_cast<uint8_t>((moved.taken ? kNonZero : 0) | (moved.remainder ? kRemainder : 0));
    op->out_codec = op->codec;
    if (moved.taken) {
      Encode(chunk, op);
    } else {
      op->out_bytes = 0;
    }
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

  // Asks for what a later pass writes, while an earlier one waits for what it reads.
  static void PrefetchForWrite(const void* memory, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) {
      __builtin_prefetch(static_cast<const std::byte*>(memory) + i, 1);
    }
  }

  template <typename Set>
  void Merge(Set set, const ChunkSpan& chunk, ChunkOp* op) {
    // A dense payload takes its own time; measured: it loses by this.
    if (op->codec != Codec::kFloat32) PrefetchForWrite(chunk.weights, 4 * chunk.count);
    const bool packed = op->codec == Codec::kBfloat16 || op->codec == Codec::kInt8;
    if (packed && Set::kLanes >= Avx2::kLanes) return MergePacked(chunk, op);
    const Decoded decoded =
        DecodePayload(op->codec, op->in, op->in_bytes, chunk.count, scratch_.get(), simd_);
    op->result = decoded.result;
    if (decoded.result != 0) return;
    HogwildExchangeMerge(set, rule_, chunk, decoded.values, op->staleness);
  }

  void MergePacked(const ChunkSpan& chunk, ChunkOp* op) {
    op->result = CheckPacked(op->codec, op->in, op->in_bytes, chunk.count);
    if (op->result != 0) return;
    if (op->codec == Codec::kBfloat16) {
      return HogwildExchangeMergeBfloat16(rule_, chunk, op->in, op->staleness);
    }
    float scale;
    std::memcpy(&scale, op->in, sizeof(scale));
    HogwildExchangeMergeInt8(rule_, chunk, scale, op->in + kInt8ScaleBytes, op->staleness);
  }

  const ReplicaArrays arrays_;
  const float threshold_;
  const Rule rule_;
  const Simd simd_;
  const std::unique_ptr<float[]> scratch_;  // a decoded difference
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_HOST_RULE_EXECUTOR_H_
