// The vector loops of the host executor, each compiled for every instruction set
// (base/simd.h) and chosen by its first argument: Sse{}, Avx2{} or Avx512{}.
//
// Functions that touch the live weights are named HogwildExchange..., the name by
// which the thread sanitizer is told that they race with solvers, by design. They
// use plain loads and stores. No pointer needs more alignment than a float.
#ifndef MILLRACE_EXCHANGE_HOST_LOOPS_H_
#define MILLRACE_EXCHANGE_HOST_LOOPS_H_

#include <cstdint>

#include "base/simd.h"
#include "exchange/codec.h"

namespace millrace {

// A set of one lane, for what is left at the end of a chunk.
struct OneLane {
  typedef float Float __attribute__((may_alias));
  using Int = int32_t;
  static constexpr int64_t kLanes = 1;
};

// The set that goes on where a set no longer fits.
template <typename Set>
struct Narrower {
  using Type = OneLane;
};
template <>
struct Narrower<Avx2> {
  using Type = Sse;
};
template <>
struct Narrower<Avx512> {
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

// step(set, i) for each vector from element i on, the last ones of narrower sets.
template <typename Set, typename Step>
MILLRACE_HOST_DEVICE void ForEachVector(int64_t count, Step step, int64_t i = 0) {
#pragma GCC unroll 4
  for (; i + Set::kLanes <= count; i += Set::kLanes) step(Set{}, i);
  if constexpr (Set::kLanes > 1) {
    ForEachVector<typename Narrower<Set>::Type>(count, step, i);
  }
}

// The arrays of one chunk, from its first element on.
struct ChunkSpan {
  float* weights;
  float* base;
  float* pending;
  float* rule_state;
  int64_t count;
};

// Bits of an element's floats, gathered over a chunk.
template <typename Set>
struct Gathered {
  typename Set::Int bits = {};
  // The largest magnitude (codec.h).
  MILLRACE_HOST_DEVICE void Largest(typename Set::Float x) {
    const auto magnitude = Magnitude(x);
    bits = magnitude > bits ? magnitude : bits;
  }
  MILLRACE_HOST_DEVICE void Any(typename Set::Float x) { bits |= ToBits(x); }
};

// One for each set that takes part in a chunk, so that each stays in registers.
template <typename Set>
struct Gather : Gather<typename Narrower<Set>::Type> {
  Gathered<Set> own;
  template <typename Which>
  MILLRACE_HOST_DEVICE Gathered<Which>& Of(Which) {
    return static_cast<Gather<Which>*>(this)->own;
  }
  // Of all sets; the vectors by halves, down to the narrowest.
  MILLRACE_HOST_DEVICE int32_t Largest() {
    Split([](auto* to, auto x) __attribute__((always_inline)) { to->Largest(x); });
    return Gather<typename Narrower<Set>::Type>::Largest();
  }
  // Whether any float was neither 0 nor -0.
  MILLRACE_HOST_DEVICE bool Any() {
    Split([](auto* to, auto x) __attribute__((always_inline)) { to->Any(x); });
    return Gather<typename Narrower<Set>::Type>::Any();
  }

 private:
  // add(to, part) of every part of `own`, to what gathers parts of that width.
  template <typename Add>
  MILLRACE_HOST_DEVICE void Split(Add add) {
    using Part = typename Narrower<Set>::Type;
    constexpr int64_t kParts = Set::kLanes / Part::kLanes;
    struct Parts {
      typename Part::Float part[kParts];
    };
    const auto parts = __builtin_bit_cast(Parts, own.bits);
    for (int64_t i = 0; i < kParts; ++i) {
      add(&static_cast<Gather<Part>*>(this)->own, parts.part[i]);
    }
  }
};
template <>
struct Gather<OneLane> {
  Gathered<OneLane> own;
  MILLRACE_HOST_DEVICE Gathered<OneLane>& Of(OneLane) { return own; }
  MILLRACE_HOST_DEVICE int32_t Largest() { return own.bits; }
  MILLRACE_HOST_DEVICE bool Any() { return (own.bits & kMagnitudeBits) != 0; }
};

template <typename Set>
MILLRACE_HOST_DEVICE int32_t LargestMagnitudeLoop(const float* values, int64_t count) {
  Gather<Set> largest;
  ForEachVector<Set>(
      count, [&](auto set, int64_t i) __attribute__((always_inline)) {
        largest.Of(set).Largest(LoadFloats<decltype(set)>(values + i));
      });
  return largest.Largest();
}

// Of the position, if there is one, and of what is offered.
struct Looked {
  int32_t largest_position = 0;
  int32_t largest_offer = 0;
};

template <typename Set, typename Rule>
MILLRACE_HOST_DEVICE Looked LookLoop(const Rule& rule, const ChunkSpan& chunk,
                                     const float* position) {
  Gather<Set> positions, offers;
  ForEachVector<Set>(
      chunk.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
        using Vectors = decltype(set);
        __builtin_prefetch(chunk.pending + i, 1);
        positions.Of(set).Largest(LoadFloats<Vectors>(position + i));
        const auto u = LoadFloats<Vectors>(chunk.weights + i) - LoadFloats<Vectors>(chunk.base + i);
        offers.Of(set).Largest(rule.Offer(u));
      });
  return {positions.Largest(), offers.Largest()};
}

// What a worker's chunk does with `pending`.
enum class Pending {
  kTaken,    // a new difference takes its place
  kCleared,  // it was acknowledged, and none is taken
  kHeld,     // it is not acknowledged yet
};

struct Moved {
  bool taken = false;
  bool remainder = false;
};

// kExchange of elements i on; kTake with `position` = base. (An element that was
// finite in the first pass may not be so now: it is not taken.)
template <typename Set, Pending kPending, typename Rule, typename ElementCodec>
MILLRACE_HOST_DEVICE void MoveStep(const Rule& rule, const ElementCodec& codec,
                                   const ChunkSpan& chunk, const float* position, int64_t i,
                                   Gathered<Set>* taken, Gathered<Set>* remainder) {
  using Float = typename Set::Float;
  const Float pos = LoadFloats<Set>(position + i);
  const Float u = LoadFloats<Set>(chunk.weights + i) - LoadFloats<Set>(chunk.base + i);
  Float d = {}, pending = {};
  if constexpr (kPending == Pending::kHeld) pending = LoadFloats<Set>(chunk.pending + i);
  if constexpr (kPending == Pending::kTaken) {
    const Float offer = rule.Offer(u);
    d = codec.Round(Magnitude(offer) < codec.overflow() ? offer : Float{});
    pending = d;
    taken->Any(d);
  }
  const Float new_base = pos + pending;
  const Float new_weights = new_base + rule.Keep(u, d);
  remainder->Any(new_weights - new_base);
  StoreFloats<Set>(chunk.weights + i, new_weights);
  StoreFloats<Set>(chunk.base + i, new_base);
  if constexpr (kPending != Pending::kHeld) StoreFloats<Set>(chunk.pending + i, pending);
}

template <typename Set, Pending kPending, typename Rule, typename ElementCodec>
MILLRACE_HOST_DEVICE Moved MoveLoop(const Rule& shared_rule, const ElementCodec& shared_codec,
                                    const ChunkSpan& shared_chunk, const float* position) {
  // Copies, that no store can be thought to change.
  const Rule rule = shared_rule;
  const ElementCodec codec = shared_codec;
  const ChunkSpan chunk = shared_chunk;
  Gather<Set> taken, remainder;
  ForEachVector<Set>(
      chunk.count, [&](auto set, int64_t i) __attribute__((always_inline)) {
        // The next chunk, most likely. Prefetching beyond an array is harmless.
        __builtin_prefetch(chunk.weights + chunk.count + i, 1);
        __builtin_prefetch(chunk.base + chunk.count + i, 1);
        MoveStep<decltype(set), kPending>(rule, codec, chunk, position, i, &taken.Of(set),
                                          &remainder.Of(set));
      });
  return {taken.Any(), remainder.Any()};
}

// Merges differences d into the weights from element i on.
template <typename Set, typename Rule>
MILLRACE_HOST_DEVICE void MergeOne(const Rule& rule, const ChunkSpan& chunk, typename Set::Float d,
                                   uint32_t staleness, int64_t i) {
  using Float = typename Set::Float;
  Float state = {};
  if constexpr (Rule::kHasState) state = LoadFloats<Set>(chunk.rule_state + i);
  const Float w = LoadFloats<Set>(chunk.weights + i);
  StoreFloats<Set>(chunk.weights + i, rule.Merge(w, d, state, staleness));
  if constexpr (Rule::kHasState) StoreFloats<Set>(chunk.rule_state + i, state);
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
MILLRACE_HOST_DEVICE void SettleLoop(const ChunkSpan& shared_chunk, const float* position) {
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

#define MILLRACE_LOOP(Set) __attribute__((noinline, target(MILLRACE_TARGET_##Set))) inline

#define MILLRACE_KERNELS(Set)                                                                    \
  MILLRACE_LOOP(Set) int32_t LargestMagnitude(Set, const float* values, int64_t count) {         \
    return LargestMagnitudeLoop<Set>(values, count);                                             \
  }                                                                                              \
  template <typename Rule>                                                                       \
  MILLRACE_LOOP(Set)                                                                             \
  Looked HogwildExchangeLook(Set, const Rule& rule, const ChunkSpan& chunk,                      \
                             const float* position) {                                            \
    return LookLoop<Set>(rule, chunk, position);                                                 \
  }                                                                                              \
  template <Pending kPending, typename Rule, typename ElementCodec>                              \
  MILLRACE_LOOP(Set)                                                                             \
  Moved HogwildExchangeMove(Set, const Rule& rule, const ElementCodec& codec,                    \
                            const ChunkSpan& chunk, const float* position) {                     \
    return MoveLoop<Set, kPending>(rule, codec, chunk, position);                                \
  }                                                                                              \
  template <typename Rule>                                                                       \
  MILLRACE_LOOP(Set)                                                                             \
  void HogwildExchangeMerge(Set, const Rule& rule, const ChunkSpan& chunk, const float* diff,    \
                            uint32_t staleness) {                                                \
    MergeLoop<Set>(rule, chunk, diff, staleness);                                                \
  }                                                                                              \
  MILLRACE_LOOP(Set) void HogwildExchangeRead(Set, const ChunkSpan& chunk, float* to) {          \
    CopyLoop<Set>(chunk.weights, chunk.count, to);                                               \
  }                                                                                              \
  MILLRACE_LOOP(Set) void HogwildExchangeSettle(Set, const ChunkSpan& chunk, const float* pos) { \
    SettleLoop<Set>(chunk, pos);                                                                 \
  }                                                                                              \
  MILLRACE_LOOP(Set) void ReturnChunk(Set, const ChunkSpan& chunk, float* to) {                  \
    ReturnLoop<Set>(chunk, to);                                                                  \
  }

MILLRACE_KERNELS(Sse)
MILLRACE_KERNELS(Avx2)
MILLRACE_KERNELS(Avx512)
#undef MILLRACE_KERNELS
#undef MILLRACE_LOOP

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_HOST_LOOPS_H_
