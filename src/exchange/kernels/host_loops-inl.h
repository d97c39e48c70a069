// Loops of the host executor, compiled once for each instruction set. The first argument, a Target,
// selects the set (host_loops.h).
//
// Functions that access the live weights are named HogwildExchange... The suppressions of the
// thread sanitizer match this name, because these functions race with solvers by design: those that
// only read always do, the others if the executor has no lock. They use plain loads and stores.
// Pointers need only the alignment of a float. Rules, chunks and encoders are copied, so that the
// compiler knows that no store changes them.
#if defined(MILLRACE_EXCHANGE_KERNELS_HOST_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_EXCHANGE_KERNELS_HOST_LOOPS_INL_H_
#undef MILLRACE_EXCHANGE_KERNELS_HOST_LOOPS_INL_H_
#else
#define MILLRACE_EXCHANGE_KERNELS_HOST_LOOPS_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "exchange/kernels/alignment.h"
#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_codecs-inl.h"
#include "exchange/kernels/host_types.h"
#include "exchange/kernels/host_vectors-inl.h"
#include "exchange/kernels/rules/merge_rule.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::inline exchange::HWY_NAMESPACE {

struct Target {};

// u from element i on. Loads each weight once.
template <class D>
HWY_INLINE auto Progress(D d, const ChunkSpan& chunk, int64_t i) {
  return LoadFloats(d, chunk.weights + i) - LoadFloats(d, chunk.base + i);
}

template <typename Rule, class D, typename Floats>
HWY_INLINE void LoadState(D d, const ChunkSpan& chunk, int64_t i, Floats* state) {
  for (int k = 0; k < Rule::kStateFloats; ++k) {
    state[k] = LoadFloats(d, chunk.rule_state + k * chunk.state_stride + i);
  }
}

template <typename Rule, class D, typename Floats>
HWY_INLINE void StoreState(D d, const ChunkSpan& chunk, int64_t i, const Floats* state) {
  for (int k = 0; k < Rule::kStateFloats; ++k) {
    StoreFloats(d, state[k], chunk.rule_state + k * chunk.state_stride + i);
  }
}

// The progress from element i on of which a diff is taken when the base moves to `position`.
// `kTakes`: it is taken now, and the rule's state changes.
template <bool kTakes = false, class D, typename Rule>
HWY_INLINE auto MovedProgress(D d, const Rule& rule, const ChunkSpan& chunk, const float* position,
                              int64_t i) {
  const auto u = Progress(d, chunk, i);
  if constexpr (kCompensates<Rule>) {
    std::remove_const_t<decltype(u)> state[kStateRoom<Rule>] = {};
    LoadState<Rule>(d, chunk, i, state);
    const auto moved = LoadFloats(d, position + i) - LoadFloats(d, chunk.base + i);
    const auto compensated = rule.Compensate(u, moved, state);
    if constexpr (kTakes) StoreState<Rule>(d, chunk, i, state);
    return compensated;
  } else {
    return u;
  }
}

// `selected` where it has a finite d, otherwise 0.
template <typename Floats>
HWY_INLINE Floats Sendable(Floats selected, int32_t overflow) {
  return Magnitude(selected) < overflow ? selected : Floats{};
}

template <class D, typename Floats>
HWY_INLINE void StoreMagnitude(D d, Floats value, float* to) {
  StoreFloats(d, FromBits<Floats>(Magnitude(value)), to);
}

// The largest magnitude of all values selected at a position that have a finite d by the codec.
template <typename Rule, typename ElementCodec>
HWY_NOINLINE int32_t HogwildExchangeLargestSelected(Target, const Rule& shared_rule,
                                                    const ChunkSpan& shared_chunk,
                                                    const float* position, ElementCodec) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  Accumulator<WidestBits> largest;
  ForEachVector(Widest(), chunk.count, [&](auto d, int64_t i) MILLRACE_STEP {
    const auto selected = rule.Select(MovedProgress(d, rule, chunk, position, i));
    largest.Of(d).Largest(Sendable(selected, ElementCodec::overflow()));
  });
  return largest.Largest();
}

// pending := the magnitudes of all values selected at a position; 0 where there is no finite d.
template <typename Rule>
HWY_NOINLINE void HogwildExchangeMagnitudes(Target, const Rule& shared_rule,
                                            const ChunkSpan& shared_chunk, const float* position) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  ForEachVector(Widest(), chunk.count, [&](auto d, int64_t i) MILLRACE_STEP {
    const auto selected = rule.Select(MovedProgress(d, rule, chunk, position, i));
    StoreMagnitude(d, Sendable(selected, kInfinityBits), chunk.pending + i);
  });
}

// Updates w and base from element i on; `pending` is the new pending diff, and `rest` stays in
// w - base.
template <class D, typename Floats>
HWY_INLINE void MoveTo(D d, const ChunkSpan& chunk, const float* position, int64_t i,
                       Floats pending, Floats rest, Accumulator<WidestBits>* remainder) {
  const Floats new_base = LoadFloats(d, position + i) + pending;
  const Floats new_weights = new_base + rest;
  remainder->Of(d).Any(new_weights - new_base);
  StoreFloats(d, new_weights, chunk.weights + i);
  StoreFloats(d, new_base, chunk.base + i);
}

// kExchange; kTake if `position` is base. `to` receives the diff if kPending is kTaken; its output
// is meaningless if the diff is 0.
template <Pending kPending, typename Rule, typename Encoder>
HWY_NOINLINE MoveResult HogwildExchangeMove(Target, const Rule& shared_rule,
                                            const ChunkSpan& shared_chunk, const float* position,
                                            Encoder* to) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  Encoder encoder = *to;
  Accumulator<WidestBits> taken, remainder;
  ForEachVector(Widest(), chunk.count, [&](auto d, int64_t i) MILLRACE_STEP {
    auto rest = Progress(d, chunk, i);
    auto pending = decltype(rest){};
    if constexpr (kPending == Pending::kHeld) pending = LoadFloats(d, chunk.pending + i);
    if constexpr (kPending == Pending::kTaken) {
      const auto u = MovedProgress<true>(d, rule, chunk, position, i);
      const auto selected = Sendable(rule.Select(u), encoder.codec.overflow());
      pending = Encode(d, &encoder, selected, i);
      taken.Of(d).Any(pending);
      rest = rule.Residual(u, pending);
    }
    MoveTo(d, chunk, position, i, pending, rest, &remainder);
    if constexpr (kPending != Pending::kHeld) StoreFloats(d, pending, chunk.pending + i);
  });
  *to = encoder;
  return {taken.Any(), remainder.Any()};
}

// Encodes a diff that the codec has rounded before.
template <typename Encoder>
HWY_NOINLINE void EncodeDiff(Target, const float* diff, int64_t count, Encoder* to) {
  Encoder encoder = *to;
  ForEachVector(Widest(), count, [&](auto d, int64_t i) MILLRACE_STEP {
    Encode(d, &encoder, LoadFloats(d, diff + i), i);
  });
  *to = encoder;
}

template <typename Payload>
HWY_NOINLINE void DecodeAll(Target, Payload from, int64_t count, float* to) {
  ForEachVector(Widest(), count, [&](auto d, int64_t i) MILLRACE_STEP {
    StoreFloats(d, Decode(d, from, i), to + i);
  });
}

// The master's weights, into which the rule merges diffs.
template <typename Rule>
HWY_INLINE float* MergedArray(const ChunkSpan& chunk) {
  return kMergesOwn<Rule> ? chunk.base : chunk.weights;
}

// Stores the master's weights from element i on, which were `before`. Those of solvers move with
// them, and stay equal where they are.
template <class D, typename Rule, typename Floats>
HWY_INLINE void StoreMerged(D d, const Rule&, const ChunkSpan& chunk, Floats before, Floats merged,
                            int64_t i) {
  if constexpr (kMergesOwn<Rule>) {
    const Floats w = LoadFloats(d, chunk.weights + i);
    StoreFloats(d, w == before ? merged : w + (merged - before), chunk.weights + i);
  }
  StoreFloats(d, merged, MergedArray<Rule>(chunk) + i);
}

// Merges diffs from element i on into the weights.
template <class D, typename Rule, typename Floats>
HWY_INLINE void MergeOne(D d, const Rule& rule, const ChunkSpan& chunk, Floats diff,
                         uint32_t staleness, int64_t i) {
  Floats state[kStateRoom<Rule>] = {};
  LoadState<Rule>(d, chunk, i, state);
  const Floats before = LoadFloats(d, MergedArray<Rule>(chunk) + i);
  StoreMerged(d, rule, chunk, before, rule.Apply(before, diff, state, staleness), i);
  StoreState<Rule>(d, chunk, i, state);
}

// kMergeOwn. `to` may be null.
template <typename Rule>
HWY_NOINLINE void HogwildExchangeMergeOwn(Target, const Rule& shared_rule,
                                          const ChunkSpan& shared_chunk, float* to) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  ForEachVector(Widest(), chunk.count, [&](auto d, int64_t i) MILLRACE_STEP {
    const auto w = LoadFloats(d, chunk.weights + i);
    const auto before = LoadFloats(d, chunk.base + i) - LoadFloats(d, chunk.pending + i);
    const auto u = w - before;
    const auto is_finite = Magnitude(u) < kInfinityBits;
    std::remove_const_t<decltype(w)> state[kStateRoom<Rule>] = {};
    LoadState<Rule>(d, chunk, i, state);
    const auto merged = rule.Apply(before, is_finite ? u : decltype(u){}, state, 0);
    StoreFloats(d, is_finite ? merged : w, chunk.weights + i);
    StoreFloats(d, merged, chunk.base + i);
    StoreFloats(d, decltype(u){}, chunk.pending + i);
    if (to != nullptr) StoreFloats(d, merged, to + i);
    StoreState<Rule>(d, chunk, i, state);
  });
}

template <typename Payload>
HWY_NOINLINE void SumAlignment(Target, const ChunkSpan& shared_chunk, const Payload& diff,
                               AlignmentSums* sums) {
  const ChunkSpan chunk = shared_chunk;
  const Payload from = diff;
  ForEachVector(Widest(), chunk.count, [&](auto d, int64_t i) MILLRACE_STEP {
    const auto x = Decode(d, from, i);
    const auto s = LoadFloats(d, chunk.rule_state + i);
    const auto lane = i % kAlignmentLanes;
    const auto add = [&](auto product, float* to) MILLRACE_STEP {
      StoreFloats(d, LoadFloats(d, to + lane) + product, to + lane);
    };
    add(x * s, sums->ds);
    add(x * x, sums->dd);
    add(s * s, sums->ss);
  });
}

template <typename Rule, typename Payload>
HWY_NOINLINE void HogwildExchangeMerge(Target, const Rule& shared_rule,
                                       const ChunkSpan& shared_chunk, const Payload& diff,
                                       uint32_t staleness) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  const Payload from = diff;
  ForEachVector(Widest(), chunk.count, [&](auto d, int64_t i) MILLRACE_STEP {
    MergeOne(d, rule, chunk, Decode(d, from, i), staleness, i);
  });
}

// The same; also returns whether all values of `following`, of the same count, are finite. A
// separate pass would wait for this memory with nothing else to do. Prefetches ahead, which reaches
// into the following chunks and payloads if they are contiguous. Vectors narrower than a cache line
// gain neither from the prefetch nor from alignment.
template <typename Rule, typename Payload>
HWY_NOINLINE bool HogwildExchangeMergeAhead(Target, const Rule& shared_rule,
                                            const ChunkSpan& shared_chunk, const Payload& diff,
                                            uint32_t staleness, const Payload& following) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  const Payload from = diff, next = following;
  FiniteCheck<Payload> finite;
  const auto merge = [&](auto d, int64_t i) MILLRACE_STEP {
    if constexpr (hn::MaxLanes(d) * sizeof(float) == 64 &&
                  std::is_same_v<Payload, Float32Payload>) {
      __builtin_prefetch(MergedArray<Rule>(chunk) + i + 1024);
      __builtin_prefetch(next.floats + i + 512);
    }
    MergeOne(d, rule, chunk, Decode(d, from, i), staleness, i);
  };
  const int64_t last = chunk.count - 2 * kWidestLanes;
  if (last < 0) {
    ForEachVector(Widest(), chunk.count, [&](auto d, int64_t i) MILLRACE_STEP {
      merge(d, i);
      finite.Add(d, next, i);
    });
    return finite.Passed();
  }
  finite.AddPair(next, 0);  // before the first aligned vector
  ForEachAlignedPair(
      chunk.weights, chunk.count,
      [&](int64_t i) MILLRACE_STEP {
        merge(Widest(), i);
        merge(Widest(), i + kWidestLanes);
        finite.AddPair(next, i);
      },
      [&](auto d, int64_t i) MILLRACE_STEP { merge(d, i); });
  finite.AddPair(next, last);
  return finite.PairsPassed();
}

// Whether all values are finite. The last two vectors overlap those before them.
template <typename Payload>
HWY_NOINLINE bool AllFinite(Target, const Payload& shared_payload, int64_t count) {
  const Payload payload = shared_payload;
  FiniteCheck<Payload> finite;
  const int64_t last = count - 2 * kWidestLanes;
  if (last < 0) {
    ForEachVector(Widest(), count,
                  [&](auto d, int64_t i) MILLRACE_STEP { finite.Add(d, payload, i); });
    return finite.Passed();
  }
#pragma GCC unroll 2
  for (int64_t i = 0; i < last; i += 2 * kWidestLanes) finite.AddPair(payload, i);
  finite.AddPair(payload, last);
  return finite.PairsPassed();
}

// Number of elements of a bitmap; -1 if a bit from `count` on is set.
inline HWY_NOINLINE int64_t CountPresent(Target, const SparsePayload& payload, int64_t count) {
  int64_t present = 0, i = 0;
  for (; i + 32 <= count; i += 32) present += std::popcount(payload.BitsAt(i));
  if (i == count) return present;
  const uint32_t last = payload.BitsAt(i);
  return last >> (count - i) != 0 ? -1 : present + std::popcount(last);
}

// Merges diffs of the present elements: those with absent >= 0.
template <class D, typename Rule>
HWY_INLINE void MergePresent(D d, const Rule& rule, const ChunkSpan& chunk, hn::Vec<D> diff,
                             hn::Vec<hn::RebindToSigned<D>> absent, uint32_t staleness, int64_t i) {
  // Highway 1.0.3 has an IfNegativeThenElse() that is wrong for SSSE3.
  const auto is_absent = ToBits(hn::BitCast(d, absent).raw) < 0;
  const auto before = LoadFloats(d, MergedArray<Rule>(chunk) + i);
  std::remove_const_t<decltype(before)> old_state[kStateRoom<Rule>] = {},
                                        state[kStateRoom<Rule>] = {};
  LoadState<Rule>(d, chunk, i, old_state);
  LoadState<Rule>(d, chunk, i, state);
  const auto merged = rule.Apply(before, diff.raw, state, staleness);
  StoreMerged(d, rule, chunk, before, is_absent ? before : merged, i);
  for (int k = 0; k < Rule::kStateFloats; ++k) state[k] = is_absent ? old_state[k] : state[k];
  StoreState<Rule>(d, chunk, i, state);
}

// Merges a checked sparse payload, for rules with kZeroChangesNothing. Vectors of eight with a
// blend, because branches on the bitmap are hard to predict. Bitmap words of 0 are skipped, so that
// their weights are not touched. Each step loads eight elements even if it uses fewer; near the end
// it loads the last ones. With narrower vectors single elements are faster.
template <typename Rule>
HWY_NOINLINE void HogwildExchangeMergeSparse(Target, const Rule& shared_rule,
                                             const ChunkSpan& shared_chunk,
                                             const SparsePayload& shared_payload,
                                             uint32_t staleness) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  const SparsePayload payload = shared_payload;
  const float* next = payload.begin;
  int64_t i = 0;
  if (hn::MaxLanes(Widest()) >= 8 && payload.end - next >= 8) {
    const hn::CappedTag<float, 8> d;
    const hn::RebindToSigned<decltype(d)> di;
    const float* const last = payload.end - 8;
    for (; i + 32 <= chunk.count; i += 32) {
      const uint32_t word = payload.BitsAt(i);
      if (word == 0) continue;
#pragma GCC unroll 4
      for (int lane = 0; lane < 32; lane += 8) {
        const uint32_t bits = word >> lane & 0xff;
        const float* const from = next < last ? next : last;
        const auto of_bits =
            hn::LoadU(hn::Rebind<int8_t, decltype(d)>(), kRanksOfBits[bits].data());
        const auto ranks =
            hn::Add(hn::PromoteTo(di, of_bits), hn::Set(di, static_cast<int32_t>(next - from)));
        const auto diff = hn::TableLookupLanes(hn::LoadU(d, from), hn::IndicesFromVec(d, ranks));
        MergePresent(d, rule, chunk, diff, ranks, staleness, i + lane);
        next += std::popcount(bits);
      }
    }
  }
  for (; i < chunk.count; i += 32) {
    for (uint32_t bits = payload.BitsAt(i); bits != 0; bits &= bits - 1) {
      const hn::CappedTag<float, 1> one;
      MergeOne(one, rule, chunk, LoadFloats(one, next++), staleness, i + std::countr_zero(bits));
    }
  }
}

// to := w.
inline HWY_NOINLINE void HogwildExchangeRead(Target, const ChunkSpan& shared_chunk, float* to) {
  const ChunkSpan chunk = shared_chunk;
  ForEachVector(Widest(), chunk.count, [&](auto d, int64_t i) MILLRACE_STEP {
    StoreFloats(d, LoadFloats(d, chunk.weights + i), to + i);
  });
}

// w := base := position, or base := w without one; pending := 0.
inline HWY_NOINLINE void HogwildExchangeReset(Target, const ChunkSpan& shared_chunk,
                                              const float* position) {
  const ChunkSpan chunk = shared_chunk;
  ForEachVector(Widest(), chunk.count, [&](auto d, int64_t i) MILLRACE_STEP {
    const auto value = LoadFloats(d, (position ? position : chunk.weights) + i);
    if (position) StoreFloats(d, value, chunk.weights + i);
    StoreFloats(d, value, chunk.base + i);
    StoreFloats(d, decltype(value){}, chunk.pending + i);
  });
}

// to := base - pending; `to` may be base.
inline HWY_NOINLINE void ReturnChunk(Target, const ChunkSpan& shared_chunk, float* to) {
  const ChunkSpan chunk = shared_chunk;
  ForEachVector(Widest(), chunk.count, [&](auto d, int64_t i) MILLRACE_STEP {
    StoreFloats(d, LoadFloats(d, chunk.base + i) - LoadFloats(d, chunk.pending + i), to + i);
  });
}

}  // namespace millrace::inline exchange::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_LOOPS_INL_H_
