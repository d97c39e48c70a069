// Vector loops of the host executor. Each is compiled for every instruction set (base/simd.h); the
// first argument selects one: Sse{}, Avx2{} or Avx512{}.
//
// Functions that access the live weights are named HogwildExchange... The suppressions of the
// thread sanitizer match this name, because these functions race with solvers by design: those that
// only read always do, the others if the executor has no lock. They use plain loads and stores.
// Pointers need only the alignment of a float.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_LOOPS_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_LOOPS_H_

#include <cstdint>

#include "base/simd.h"
#include "exchange/kernels/codec.h"

namespace millrace {

// A set with one lane, for the last elements of a chunk.
struct Scalar {
  typedef float Float __attribute__((may_alias));
  using Int = int32_t;
  static constexpr int64_t kLanes = 1;
};

// The next narrower set, for elements that do not fill a vector.
template <typename Set>
struct HalfWidth {
  using Type = Scalar;
};
template <>
struct HalfWidth<Avx2> {
  using Type = Sse;
};
template <>
struct HalfWidth<Avx512> {
  using Type = Avx2;
};

template <typename Set>
MILLRACE_HOST_DEVICE typename Set::Float LoadFloats(const float* from) {
  return *reinterpret_cast<const typename Set::Float*>(from);
}

template <typename Set>
MILLRACE_HOST_DEVICE void StoreFloats(float* to, typename Set::Float value) {
  *reinterpret_cast<typename Set::Float*>(to) = value;
}

// Calls step(set, i) for each vector from element i on, with narrower sets for the last elements.
template <typename Set, typename Step>
MILLRACE_HOST_DEVICE void ForEachVector(int64_t count, Step step, int64_t i = 0) {
#pragma GCC unroll 4
  for (; i + Set::kLanes <= count; i += Set::kLanes) step(Set{}, i);
  if constexpr (Set::kLanes > 1) {
    ForEachVector<typename HalfWidth<Set>::Type>(count, step, i);
  }
}

// The same, with the vectors of `Set` placed so that they do not cross cache lines of `aligned`,
// the array that is stored to: a store that crosses a line takes as long as two.
template <typename Set, typename Step>
MILLRACE_HOST_DEVICE void ForEachAlignedVector(const float* aligned, int64_t count, Step step) {
  const auto place = static_cast<int64_t>(reinterpret_cast<uintptr_t>(aligned) / sizeof(float));
  const int64_t head = -place & (Set::kLanes - 1);
  if (head >= count) return ForEachVector<Set>(count, step);
  ForEachVector<typename HalfWidth<Set>::Type>(head, step);
  ForEachVector<Set>(count, step, head);
}

// Arrays of one chunk; each pointer refers to the chunk's first element.
struct ChunkSpan {
  float* weights;
  float* base;
  float* pending;
  float* rule_state;
  int64_t count;
};

// A rule of which only a share of Select(u) is sent (ChunkOp::share). The loops of a full share are
// compiled without it: the multiplication slows int8 takes from memory by 30 %
// (exchange_bench).
template <typename Rule>
struct DampedRule : Rule {
  DampedRule(const Rule& rule, float sent) : Rule(rule), share(sent) {}

  template <typename T>
  MILLRACE_HOST_DEVICE T Select(T u) const {
    return share * Rule::Select(u);
  }

  float share;
};

template <typename Rule>
DampedRule<Rule> Damped(const Rule& rule, float share) {
  return DampedRule<Rule>(rule, share);
}

// u from element i on. Loads each weight once.
template <typename Set>
MILLRACE_HOST_DEVICE typename Set::Float Progress(const ChunkSpan& chunk, int64_t i) {
  return LoadFloats<Set>(chunk.weights + i) - LoadFloats<Set>(chunk.base + i);
}

// `selected` where it has a finite d, otherwise 0.
template <typename Set>
MILLRACE_HOST_DEVICE typename Set::Float Sendable(typename Set::Float selected, int32_t overflow) {
  return Magnitude(selected) < overflow ? selected : typename Set::Float{};
}

// The selected value for progress u: 0 for elements without a finite d.
template <typename Set, typename Rule>
MILLRACE_HOST_DEVICE typename Set::Float Selected(const Rule& rule, typename Set::Float u,
                                                  int32_t overflow) {
  return Sendable<Set>(rule.Select(u), overflow);
}

// Reduces float bit patterns over a chunk, per lane.
template <typename Set>
struct LaneAccumulator {
  typename Set::Int bits = {};
  // Tracks the largest magnitude (codec.h).
  MILLRACE_HOST_DEVICE void Largest(typename Set::Float x) {
    const auto magnitude = Magnitude(x);
    bits = magnitude > bits ? magnitude : bits;
  }
  MILLRACE_HOST_DEVICE void Any(typename Set::Float x) { bits |= ToBits(x); }
};

// One accumulator per vector width used in a chunk, so that each stays in a register.
template <typename Set>
struct Accumulator : Accumulator<typename HalfWidth<Set>::Type> {
  LaneAccumulator<Set> own;
  template <typename Which>
  MILLRACE_HOST_DEVICE LaneAccumulator<Which>& Of(Which) {
    return static_cast<Accumulator<Which>*>(this)->own;
  }
  // Reduces over all widths, by splitting vectors down to the narrowest.
  MILLRACE_HOST_DEVICE int32_t Largest() {
    Split([](auto* to, auto x) __attribute__((always_inline)) { to->Largest(x); });
    return Accumulator<typename HalfWidth<Set>::Type>::Largest();
  }
  // True if any accumulated float was neither 0 nor -0.
  MILLRACE_HOST_DEVICE bool Any() {
    Split([](auto* to, auto x) __attribute__((always_inline)) { to->Any(x); });
    return Accumulator<typename HalfWidth<Set>::Type>::Any();
  }

 private:
  // Calls add(to, part) for each part of `own`, with the accumulator of the part's width.
  template <typename Add>
  MILLRACE_HOST_DEVICE void Split(Add add) {
    using Part = typename HalfWidth<Set>::Type;
    constexpr int64_t kParts = Set::kLanes / Part::kLanes;
    struct Parts {
      typename Part::Float part[kParts];
    };
    const auto parts = __builtin_bit_cast(Parts, own.bits);
    for (int64_t i = 0; i < kParts; ++i) {
      add(&static_cast<Accumulator<Part>*>(this)->own, parts.part[i]);
    }
  }
};
template <>
struct Accumulator<Scalar> {
  LaneAccumulator<Scalar> own;
  MILLRACE_HOST_DEVICE LaneAccumulator<Scalar>& Of(Scalar) { return own; }
  MILLRACE_HOST_DEVICE int32_t Largest() { return own.bits; }
  MILLRACE_HOST_DEVICE bool Any() { return (own.bits & kMagnitudeBits) != 0; }
};

// The largest magnitude of all selected values below `overflow`.
template <typename Set, typename Rule>
MILLRACE_HOST_DEVICE int32_t LargestSelectedLoop(const Rule& shared_rule,
                                                 const ChunkSpan& shared_chunk, int32_t overflow) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  Accumulator<Set> largest;
  ForEachVector<Set>(
      chunk.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
        largest.Of(set).Largest(
            Selected<decltype(set)>(rule, Progress<decltype(set)>(chunk, i), overflow));
      });
  return largest.Largest();
}

// What happens to a worker's `pending`.
enum class Pending {
  kTaken,    // replaced by a new diff
  kCleared,  // acknowledged, and no new diff is taken
  kHeld,     // not acknowledged yet
};

struct MoveResult {
  bool taken = false;
  bool remainder = false;
};

// Updates w and base from element i on; `pending` is the new pending diff, and `rest` stays in
// w - base.
template <typename Set>
MILLRACE_HOST_DEVICE void MoveTo(const ChunkSpan& chunk, const float* position, int64_t i,
                                 typename Set::Float pending, typename Set::Float rest,
                                 LaneAccumulator<Set>* remainder) {
  const typename Set::Float new_base = LoadFloats<Set>(position + i) + pending;
  const typename Set::Float new_weights = new_base + rest;
  remainder->Any(new_weights - new_base);
  StoreFloats<Set>(chunk.weights + i, new_weights);
  StoreFloats<Set>(chunk.base + i, new_base);
}

// The same for progress u, of which d is sent.
template <typename Set, typename Rule>
MILLRACE_HOST_DEVICE void MoveOne(const Rule& rule, const ChunkSpan& chunk, const float* position,
                                  int64_t i, typename Set::Float u, typename Set::Float d,
                                  typename Set::Float pending, LaneAccumulator<Set>* remainder) {
  MoveTo<Set>(chunk, position, i, pending, rule.Residual(u, d), remainder);
}

// kExchange from element i on; kTake if `position` is base. `out` receives a copy of the diff; it
// may be null.
template <typename Set, Pending kPending, typename Rule, typename ElementCodec>
MILLRACE_HOST_DEVICE void MoveStep(const Rule& rule, const ElementCodec& codec,
                                   const ChunkSpan& chunk, const float* position, float* out,
                                   int64_t i, LaneAccumulator<Set>* taken,
                                   LaneAccumulator<Set>* remainder) {
  using Float = typename Set::Float;
  const Float u = Progress<Set>(chunk, i);
  Float d = {}, pending = {};
  if constexpr (kPending == Pending::kHeld) pending = LoadFloats<Set>(chunk.pending + i);
  if constexpr (kPending == Pending::kTaken) {
    pending = d = codec.Round(Selected<Set>(rule, u, codec.overflow()));
    taken->Any(d);
    if (out != nullptr) StoreFloats<Set>(out + i, d);
  }
  MoveOne<Set>(rule, chunk, position, i, u, d, pending, remainder);
  if constexpr (kPending != Pending::kHeld) StoreFloats<Set>(chunk.pending + i, pending);
}

template <typename Set, Pending kPending, typename Rule, typename ElementCodec>
MILLRACE_HOST_DEVICE MoveResult MoveLoop(const Rule& shared_rule, const ElementCodec& shared_codec,
                                         const ChunkSpan& shared_chunk, const float* position,
                                         float* out) {
  // Local copies, so that the compiler knows that no store changes them.
  const Rule rule = shared_rule;
  const ElementCodec codec = shared_codec;
  const ChunkSpan chunk = shared_chunk;
  Accumulator<Set> taken, remainder;
  ForEachVector<Set>(
      chunk.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
        MoveStep<decltype(set), kPending>(rule, codec, chunk, position, out, i, &taken.Of(set),
                                          &remainder.Of(set));
      });
  return {taken.Any(), remainder.Any()};
}

// Merges diffs d into the weights from element i on.
template <typename Set, typename Rule>
MILLRACE_HOST_DEVICE void MergeOne(const Rule& rule, const ChunkSpan& chunk, typename Set::Float d,
                                   uint32_t staleness, int64_t i) {
  using Float = typename Set::Float;
  Float state = {};
  if constexpr (Rule::kHasState) state = LoadFloats<Set>(chunk.rule_state + i);
  const Float w = LoadFloats<Set>(chunk.weights + i);
  StoreFloats<Set>(chunk.weights + i, rule.Apply(w, d, state, staleness));
  if constexpr (Rule::kHasState) StoreFloats<Set>(chunk.rule_state + i, state);
}

// Merges diffs d of the present elements: those with absent >= 0.
template <typename Set, typename Rule>
MILLRACE_HOST_DEVICE void MergePresent(const Rule& rule, const ChunkSpan& chunk,
                                       typename Set::Float d, typename Set::Int absent,
                                       uint32_t staleness, int64_t i) {
  using Float = typename Set::Float;
  const Float w = LoadFloats<Set>(chunk.weights + i);
  Float old_state = {};
  if constexpr (Rule::kHasState) old_state = LoadFloats<Set>(chunk.rule_state + i);
  Float state = old_state;
  const Float merged = rule.Apply(w, d, state, staleness);
  StoreFloats<Set>(chunk.weights + i, absent < 0 ? w : merged);
  if constexpr (Rule::kHasState) {
    StoreFloats<Set>(chunk.rule_state + i, absent < 0 ? old_state : state);
  }
}

template <typename Set, typename Rule>
MILLRACE_HOST_DEVICE void MergeLoop(const Rule& shared_rule, const ChunkSpan& shared_chunk,
                                    const float* diff, uint32_t staleness) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  ForEachVector<Set>(
      chunk.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
        MergeOne<decltype(set)>(rule, chunk, LoadFloats<decltype(set)>(diff + i), staleness, i);
      });
}

// True if a vector fills a cache line.
template <typename Set>
inline constexpr bool kOneLine = Set::kLanes * sizeof(float) == 64;

// MergeLoop() that also returns whether all floats of `next`, of the same count, are finite. A
// separate pass would wait for this memory with nothing else to do. Prefetches ahead, which reaches
// into the following chunks and payloads if they are contiguous. Vectors narrower than a cache line
// gain neither from the prefetch nor from alignment.
template <typename Set, typename Rule>
MILLRACE_HOST_DEVICE bool MergeAheadLoop(const Rule& shared_rule, const ChunkSpan& shared_chunk,
                                         const float* diff, uint32_t staleness, const float* next) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  Accumulator<Set> infinite;
  const auto step = [&](auto set, int64_t i) __attribute__((always_inline)) {
    using Vectors = decltype(set);
    if constexpr (kOneLine<Vectors>) {
      __builtin_prefetch(chunk.weights + i + 1024);
      __builtin_prefetch(next + i + 512);
    }
    MergeOne<Vectors>(rule, chunk, LoadFloats<Vectors>(diff + i), staleness, i);
    const auto x = LoadFloats<Vectors>(next + i);
    infinite.Of(set).Any(x - x);  // 0, or NaN where x is not finite
  };
  if constexpr (kOneLine<Set>) {
    ForEachAlignedVector<Set>(chunk.weights, chunk.count, step);
  } else {
    ForEachVector<Set>(chunk.count, step);
  }
  return !infinite.Any();
}

// to := from.
template <typename Set>
MILLRACE_HOST_DEVICE void CopyLoop(const float* from, int64_t count, float* to) {
  ForEachVector<Set>(
      count, [&](auto set, int64_t i) __attribute__((always_inline)) {
        StoreFloats<decltype(set)>(to + i, LoadFloats<decltype(set)>(from + i));
      });
}

// weights := base := position, or base := weights without one; pending := 0.
template <typename Set>
MILLRACE_HOST_DEVICE void ResetLoop(const ChunkSpan& shared_chunk, const float* position) {
  const ChunkSpan chunk = shared_chunk;
  ForEachVector<Set>(
      chunk.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
        using Vectors = decltype(set);
        const auto value = LoadFloats<Vectors>((position ? position : chunk.weights) + i);
        if (position) StoreFloats<Vectors>(chunk.weights + i, value);
        StoreFloats<Vectors>(chunk.base + i, value);
        StoreFloats<Vectors>(chunk.pending + i, typename Vectors::Float{});
      });
}

// to := base - pending.
template <typename Set>
MILLRACE_HOST_DEVICE void ReturnLoop(const ChunkSpan& shared_chunk, float* to) {
  const ChunkSpan chunk = shared_chunk;
  ForEachVector<Set>(
      chunk.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
        using Vectors = decltype(set);
        StoreFloats<Vectors>(
            to + i, LoadFloats<Vectors>(chunk.base + i) - LoadFloats<Vectors>(chunk.pending + i));
      });
}

#define MILLRACE_LOOP(Set) MILLRACE_KERNEL(Set) inline

#define MILLRACE_KERNELS(Set)                                                                      \
  template <typename Rule>                                                                         \
  MILLRACE_LOOP(Set)                                                                               \
  int32_t HogwildExchangeLargestSelected(Set, const Rule& rule, const ChunkSpan& chunk,            \
                                         int32_t overflow) {                                       \
    return LargestSelectedLoop<Set>(rule, chunk, overflow);                                        \
  }                                                                                                \
  template <Pending kPending, typename Rule, typename ElementCodec>                                \
  MILLRACE_LOOP(Set)                                                                               \
  MoveResult HogwildExchangeMove(Set, const Rule& rule, const ElementCodec& codec,                 \
                                 const ChunkSpan& chunk, const float* position, float* out) {      \
    return MoveLoop<Set, kPending>(rule, codec, chunk, position, out);                             \
  }                                                                                                \
  template <typename Rule>                                                                         \
  MILLRACE_LOOP(Set)                                                                               \
  void HogwildExchangeMerge(Set, const Rule& rule, const ChunkSpan& chunk, const float* diff,      \
                            uint32_t staleness) {                                                  \
    MergeLoop<Set>(rule, chunk, diff, staleness);                                                  \
  }                                                                                                \
  template <typename Rule>                                                                         \
  MILLRACE_LOOP(Set)                                                                               \
  bool HogwildExchangeMergeAhead(Set, const Rule& rule, const ChunkSpan& chunk, const float* diff, \
                                 uint32_t staleness, const float* next) {                          \
    return MergeAheadLoop<Set>(rule, chunk, diff, staleness, next);                                \
  }                                                                                                \
  MILLRACE_LOOP(Set) void HogwildExchangeRead(Set, const ChunkSpan& chunk, float* to) {            \
    CopyLoop<Set>(chunk.weights, chunk.count, to);                                                 \
  }                                                                                                \
  MILLRACE_LOOP(Set) void HogwildExchangeReset(Set, const ChunkSpan& chunk, const float* pos) {    \
    ResetLoop<Set>(chunk, pos);                                                                    \
  }                                                                                                \
  MILLRACE_LOOP(Set) void ReturnChunk(Set, const ChunkSpan& chunk, float* to) {                    \
    ReturnLoop<Set>(chunk, to);                                                                    \
  }

MILLRACE_KERNELS(Sse)
MILLRACE_KERNELS(Avx2)
MILLRACE_KERNELS(Avx512)
#undef MILLRACE_KERNELS
#undef MILLRACE_LOOP

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_LOOPS_H_
