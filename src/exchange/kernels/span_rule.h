// Rules over spans (millrace/merge_rule.h) in the host executor: SpanRule takes the place of a
// rule's struct (merge_rule.h), and overloads of the executor's loops for it call the rule once per
// block. A virtual call then costs nothing beside the block. The loops copy a block into memory
// that stays in the first-level cache, because solvers may read the weights at any time. Host code
// only.
#ifndef MILLRACE_EXCHANGE_KERNELS_SPAN_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_SPAN_RULE_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>

#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_fused_merge.h"
#include "exchange/kernels/host_loops.h"
#include "millrace/merge_rule.h"

namespace millrace {

// Largest number of elements of one call of a rule. 8 KiB of copies.
inline constexpr int64_t kBlockFloats = 512;

// The copies of one block.
struct SpanBlock {
  alignas(64) float u[kBlockFloats];        // also w, when merging
  alignas(64) float d[kBlockFloats];        // also Select(u), before it is rounded
  alignas(64) float rest[kBlockFloats];     // also the state of present elements, when merging
  alignas(64) int32_t place[kBlockFloats];  // of present elements in the chunk
};

// Copies refer to the same rule and block: an executor's own.
template <bool kState, bool kZeroIsNothing>
struct SpanRule {
  static constexpr bool kHasState = kState;
  static constexpr bool kZeroChangesNothing = kZeroIsNothing;
  std::shared_ptr<const MergeRule> rule;
  std::shared_ptr<SpanBlock> block = std::make_shared<SpanBlock>();
  float share = 1;  // of Select(u) that is sent (ChunkOp::share)
};

// In place of DampedRule.
template <bool kState, bool kZero>
SpanRule<kState, kZero> Damped(const SpanRule<kState, kZero>& rule, float share) {
  return {rule.rule, rule.block, share};
}

inline ChunkSpan PartOf(const ChunkSpan& chunk, int64_t begin, int64_t count) {
  const auto from = [begin](float* array) { return array ? array + begin : nullptr; };
  return {from(chunk.weights), from(chunk.base), from(chunk.pending), from(chunk.rule_state),
          count};
}

// Calls body(part, begin) for consecutive parts of the chunk of at most kBlockFloats elements.
template <typename Body>
MILLRACE_HOST_DEVICE void ForEachBlock(const ChunkSpan& chunk, Body body) {
  for (int64_t begin = 0; begin < chunk.count; begin += kBlockFloats) {
    body(PartOf(chunk, begin, std::min(kBlockFloats, chunk.count - begin)), begin);
  }
}

// block->u := u, block->d := Select(u).
template <typename Set>
MILLRACE_HOST_DEVICE void SelectBlock(const MergeRule& rule, const ChunkSpan& part,
                                      SpanBlock* block) {
  ForEachVector<Set>(
      part.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
        StoreFloats<decltype(set)>(block->u + i, Progress<decltype(set)>(part, i));
      });
  const auto count = static_cast<size_t>(part.count);
  rule.Select({block->u, count}, {block->d, count});
}

// The selected value from element i of a block on.
template <typename Set>
MILLRACE_HOST_DEVICE typename Set::Float SelectedOf(const SpanBlock& block, float share, int64_t i,
                                                    int32_t overflow) {
  return Sendable<Set>(share * LoadFloats<Set>(block.d + i), overflow);
}

template <typename Set>
MILLRACE_HOST_DEVICE int32_t SpanLargestSelectedLoop(const MergeRule& rule, float share,
                                                     const ChunkSpan& chunk, int32_t overflow,
                                                     SpanBlock* block) {
  Accumulator<Set> selected;
  ForEachBlock(
      chunk, [&](const ChunkSpan& part, int64_t) __attribute__((always_inline)) {
        SelectBlock<Set>(rule, part, block);
        ForEachVector<Set>(
            part.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
              selected.Of(set).Largest(SelectedOf<decltype(set)>(*block, share, i, overflow));
            });
      });
  return selected.Largest();
}

// MoveLoop() for a rule over spans.
template <typename Set, Pending kPending, typename ElementCodec>
MILLRACE_HOST_DEVICE MoveResult SpanMoveLoop(const MergeRule& rule, float share,
                                             const ElementCodec& codec, const ChunkSpan& chunk,
                                             const float* position, float* out, SpanBlock* block) {
  Accumulator<Set> taken, remainder;
  ForEachBlock(
      chunk, [&](const ChunkSpan& part, int64_t begin) __attribute__((always_inline)) {
        const auto count = static_cast<size_t>(part.count);
        if constexpr (kPending == Pending::kTaken) {
          SelectBlock<Set>(rule, part, block);
          ForEachVector<Set>(
              part.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
                using Vectors = decltype(set);
                const auto d = codec.Round(SelectedOf<Vectors>(*block, share, i, codec.overflow()));
                taken.Of(set).Any(d);
                if (out != nullptr) StoreFloats<Vectors>(out + begin + i, d);
                StoreFloats<Vectors>(block->d + i, d);
                StoreFloats<Vectors>(part.pending + i, d);
              });
        } else {
          ForEachVector<Set>(
              part.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
                using Vectors = decltype(set);
                StoreFloats<Vectors>(block->u + i, Progress<Vectors>(part, i));
                StoreFloats<Vectors>(block->d + i, typename Vectors::Float{});
                if constexpr (kPending == Pending::kCleared) {
                  StoreFloats<Vectors>(part.pending + i, typename Vectors::Float{});
                }
              });
        }
        rule.Residual({block->u, count}, {block->d, count}, {block->rest, count});
        ForEachVector<Set>(
            part.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
              using Vectors = decltype(set);
              MoveTo<Vectors>(part, position + begin, i, LoadFloats<Vectors>(part.pending + i),
                              LoadFloats<Vectors>(block->rest + i), &remainder.Of(set));
            });
      });
  return {taken.Any(), remainder.Any()};
}

// MergeLoop() for a rule over spans.
template <typename Set, bool kHasState>
MILLRACE_HOST_DEVICE void SpanMergeLoop(const MergeRule& rule, const ChunkSpan& chunk,
                                        const float* diff, uint32_t staleness, SpanBlock* block) {
  ForEachBlock(
      chunk, [&](const ChunkSpan& part, int64_t begin) __attribute__((always_inline)) {
        const auto count = static_cast<size_t>(part.count);
        CopyLoop<Set>(part.weights, part.count, block->u);
        rule.Apply({block->u, count}, {diff + begin, count},
                   {part.rule_state, kHasState ? count : 0}, staleness);
        CopyLoop<Set>(block->u, part.count, part.weights);
      });
}

// Merges `count` present elements, with values `d`, which block->place lists.
template <bool kHasState>
inline void MergePlaces(const MergeRule& rule, const ChunkSpan& chunk, const float* d, size_t count,
                        uint32_t staleness, SpanBlock* block) {
  for (size_t i = 0; i < count; ++i) {
    block->u[i] = chunk.weights[block->place[i]];
    if constexpr (kHasState) block->rest[i] = chunk.rule_state[block->place[i]];
  }
  rule.Apply({block->u, count}, {d, count}, {block->rest, kHasState ? count : 0}, staleness);
  for (size_t i = 0; i < count; ++i) {
    chunk.weights[block->place[i]] = block->u[i];
    if constexpr (kHasState) chunk.rule_state[block->place[i]] = block->rest[i];
  }
}

// HogwildExchangeMergeSparse() for a rule over spans.
template <bool kHasState>
MILLRACE_HOST_DEVICE void SpanMergeSparseLoop(const MergeRule& rule, const ChunkSpan& chunk,
                                              const SparseElements& elements, uint32_t staleness,
                                              SpanBlock* block) {
  const float* next = elements.next;
  size_t count = 0;
  const auto merge = [&] {
    MergePlaces<kHasState>(rule, chunk, next, count, staleness, block);
    next += count;
    count = 0;
  };
  for (int64_t i = 0; i < chunk.count; i += 32) {
    for (uint32_t bits = BitmapWord(elements.bitmap, i); bits != 0; bits &= bits - 1) {
      block->place[count++] = static_cast<int32_t>(i + std::countr_zero(bits));
      if (count == kBlockFloats) merge();
    }
  }
  if (count > 0) merge();
}

// The overloads, each compiled for its instruction set as those of host_loops.h.
#define MILLRACE_SPAN_KERNELS(Set)                                                            \
  template <bool kState, bool kZero>                                                          \
  MILLRACE_KERNEL(Set)                                                                        \
  int32_t HogwildExchangeLargestSelected(Set, const SpanRule<kState, kZero>& rule,            \
                                         const ChunkSpan& chunk, int32_t overflow) {          \
    return SpanLargestSelectedLoop<Set>(*rule.rule, rule.share, chunk, overflow,              \
                                        rule.block.get());                                    \
  }                                                                                           \
  template <Pending kPending, bool kState, bool kZero, typename ElementCodec>                 \
  MILLRACE_KERNEL(Set)                                                                        \
  MoveResult HogwildExchangeMove(Set, const SpanRule<kState, kZero>& rule,                    \
                                 const ElementCodec& codec, const ChunkSpan& chunk,           \
                                 const float* position, float* out) {                         \
    return SpanMoveLoop<Set, kPending>(*rule.rule, rule.share, codec, chunk, position, out,   \
                                       rule.block.get());                                     \
  }                                                                                           \
  template <bool kState, bool kZero>                                                          \
  MILLRACE_KERNEL(Set)                                                                        \
  void HogwildExchangeMerge(Set, const SpanRule<kState, kZero>& rule, const ChunkSpan& chunk, \
                            const float* diff, uint32_t staleness) {                          \
    SpanMergeLoop<Set, kState>(*rule.rule, chunk, diff, staleness, rule.block.get());         \
  }

MILLRACE_SPAN_KERNELS(Sse)
MILLRACE_SPAN_KERNELS(Avx2)
MILLRACE_SPAN_KERNELS(Avx512)
#undef MILLRACE_SPAN_KERNELS

// Scattered elements gain nothing from wider sets.
template <bool kState, bool kZero>
void HogwildExchangeMergeSparse(Sse, const SpanRule<kState, kZero>& rule, const ChunkSpan& chunk,
                                const SparseElements& elements, uint32_t staleness) {
  SpanMergeSparseLoop<kState>(*rule.rule, chunk, elements, staleness, rule.block.get());
}
template <bool kState, bool kZero>
void HogwildExchangeMergeSparse(Avx2, const SpanRule<kState, kZero>& rule, const ChunkSpan& chunk,
                                const SparseElements& elements, uint32_t staleness) {
  SpanMergeSparseLoop<kState>(*rule.rule, chunk, elements, staleness, rule.block.get());
}

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_SPAN_RULE_H_
