// Loops of the host executor for rules over spans (span_rule.h): overloads of those of
// host_loops-inl.h. Compiled once for each instruction set.
#if defined(MILLRACE_EXCHANGE_KERNELS_SPAN_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_EXCHANGE_KERNELS_SPAN_LOOPS_INL_H_
#undef MILLRACE_EXCHANGE_KERNELS_SPAN_LOOPS_INL_H_
#else
#define MILLRACE_EXCHANGE_KERNELS_SPAN_LOOPS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "exchange/kernels/host_loops-inl.h"
#include "exchange/kernels/rules/span_rule.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::inline exchange::HWY_NAMESPACE {

inline ChunkSpan PartOf(const ChunkSpan& chunk, int64_t begin, int64_t count) {
  const auto from = [begin](float* array) { return array ? array + begin : nullptr; };
  return {from(chunk.weights),    from(chunk.base),   from(chunk.pending),
          from(chunk.rule_state), chunk.state_stride, count};
}

// Calls body(part, begin) for consecutive parts of the chunk of at most kBlockFloats elements.
template <typename Body>
HWY_INLINE void ForEachBlock(const ChunkSpan& chunk, const Body& body) {
  for (int64_t begin = 0; begin < chunk.count; begin += kBlockFloats) {
    body(PartOf(chunk, begin, std::min(kBlockFloats, chunk.count - begin)), begin);
  }
}

// block->u := u, block->d := Select(u).
HWY_INLINE void SelectBlock(const MergeRule& rule, const ChunkSpan& part, SpanBlock* block) {
  ForEachVector(Widest(), part.count, [&](auto d, int64_t i) MILLRACE_STEP {
    StoreFloats(d, Progress(d, part, i), block->u + i);
  });
  const auto count = static_cast<size_t>(part.count);
  rule.Select({block->u, count}, {block->d, count});
}

// The selected value from element i of a block on.
template <class D>
HWY_INLINE auto SelectedOf(D d, const SpanBlock& block, float share, int64_t i, int32_t overflow) {
  return Sendable(share * LoadFloats(d, block.d + i), overflow);
}

template <bool kZero, typename ElementCodec>
HWY_NOINLINE int32_t HogwildExchangeLargestSelected(Target, const SpanRule<kZero>& rule,
                                                    const ChunkSpan& chunk,
                                                    const float* /*position*/, ElementCodec) {
  SpanBlock* const block = rule.block.get();
  Accumulator<WidestBits> largest;
  ForEachBlock(chunk, [&](const ChunkSpan& part, int64_t) MILLRACE_STEP {
    SelectBlock(*rule.rule, part, block);
    ForEachVector(Widest(), part.count, [&](auto d, int64_t i) MILLRACE_STEP {
      largest.Of(d).Largest(SelectedOf(d, *block, rule.share, i, ElementCodec::overflow()));
    });
  });
  return largest.Largest();
}

template <bool kZero>
HWY_NOINLINE void HogwildExchangeMagnitudes(Target, const SpanRule<kZero>& rule,
                                            const ChunkSpan& chunk, const float* /*position*/) {
  SpanBlock* const block = rule.block.get();
  ForEachBlock(chunk, [&](const ChunkSpan& part, int64_t) MILLRACE_STEP {
    SelectBlock(*rule.rule, part, block);
    ForEachVector(Widest(), part.count, [&](auto d, int64_t i) MILLRACE_STEP {
      StoreMagnitude(d, SelectedOf(d, *block, rule.share, i, kInfinityBits), part.pending + i);
    });
  });
}

template <Pending kPending, bool kZero, typename Encoder>
HWY_NOINLINE MoveResult HogwildExchangeMove(Target, const SpanRule<kZero>& rule,
                                            const ChunkSpan& chunk, const float* position,
                                            Encoder* to) {
  SpanBlock* const block = rule.block.get();
  Encoder encoder = *to;
  Accumulator<WidestBits> taken, remainder;
  ForEachBlock(chunk, [&](const ChunkSpan& part, int64_t begin) MILLRACE_STEP {
    const auto count = static_cast<size_t>(part.count);
    if constexpr (kPending == Pending::kTaken) {
      SelectBlock(*rule.rule, part, block);
      ForEachVector(Widest(), part.count, [&](auto d, int64_t i) MILLRACE_STEP {
        const auto selected = SelectedOf(d, *block, rule.share, i, encoder.codec.overflow());
        const auto diff = Encode(d, &encoder, selected, begin + i);
        taken.Of(d).Any(diff);
        StoreFloats(d, diff, block->d + i);
        StoreFloats(d, diff, part.pending + i);
      });
    } else {
      ForEachVector(Widest(), part.count, [&](auto d, int64_t i) MILLRACE_STEP {
        const auto u = Progress(d, part, i);
        StoreFloats(d, u, block->u + i);
        StoreFloats(d, decltype(u){}, block->d + i);
        if constexpr (kPending == Pending::kCleared) {
          StoreFloats(d, decltype(u){}, part.pending + i);
        }
      });
    }
    if (rule.drops_rest) {
      std::fill_n(block->rest, count, 0.0f);
    } else {
      rule.rule->Residual({block->u, count}, {block->d, count}, {block->rest, count});
    }
    ForEachVector(Widest(), part.count, [&](auto d, int64_t i) MILLRACE_STEP {
      MoveTo(d, part, position + begin, i, LoadFloats(d, part.pending + i),
             LoadFloats(d, block->rest + i), &remainder);
    });
  });
  *to = encoder;
  return {taken.Any(), remainder.Any()};
}

template <bool kZero, typename Payload>
HWY_NOINLINE void HogwildExchangeMerge(Target, const SpanRule<kZero>& rule, const ChunkSpan& chunk,
                                       const Payload& payload, uint32_t staleness) {
  SpanBlock* const block = rule.block.get();
  ForEachBlock(chunk, [&](const ChunkSpan& part, int64_t begin) MILLRACE_STEP {
    const auto count = static_cast<size_t>(part.count);
    ForEachVector(Widest(), part.count, [&](auto d, int64_t i) MILLRACE_STEP {
      StoreFloats(d, LoadFloats(d, part.weights + i), block->u + i);
      StoreFloats(d, Decode(d, payload, begin + i), block->d + i);
    });
    for (int k = 0; k < rule.state_floats; ++k) {
      std::copy_n(part.rule_state + k * part.state_stride, count, block->state + k * count);
    }
    rule.rule->Apply({block->u, count}, {block->d, count},
                     {block->state, static_cast<size_t>(rule.state_floats) * count}, staleness);
    for (int k = 0; k < rule.state_floats; ++k) {
      std::copy_n(block->state + k * count, count, part.rule_state + k * part.state_stride);
    }
    ForEachVector(Widest(), part.count, [&](auto d, int64_t i) MILLRACE_STEP {
      StoreFloats(d, LoadFloats(d, block->u + i), part.weights + i);
    });
  });
}

// Merges `count` present elements, with values `diff`, which block->place lists.
inline void MergePlaces(const MergeRule& rule, size_t states, const ChunkSpan& chunk,
                        const float* diff, size_t count, uint32_t staleness, SpanBlock* block) {
  const auto state_at = [&](size_t k, size_t i) {
    return chunk.rule_state + static_cast<int64_t>(k) * chunk.state_stride + block->place[i];
  };
  for (size_t i = 0; i < count; ++i) {
    block->u[i] = chunk.weights[block->place[i]];
    for (size_t k = 0; k < states; ++k) block->state[k * count + i] = *state_at(k, i);
  }
  rule.Apply({block->u, count}, {diff, count}, {block->state, states * count}, staleness);
  for (size_t i = 0; i < count; ++i) {
    chunk.weights[block->place[i]] = block->u[i];
    for (size_t k = 0; k < states; ++k) *state_at(k, i) = block->state[k * count + i];
  }
}

template <bool kZero>
HWY_NOINLINE void HogwildExchangeMergeSparse(Target, const SpanRule<kZero>& rule,
                                             const ChunkSpan& chunk, const SparsePayload& payload,
                                             uint32_t staleness) {
  SpanBlock* const block = rule.block.get();
  const float* next = payload.begin;
  size_t count = 0;
  const auto merge = [&] {
    MergePlaces(*rule.rule, static_cast<size_t>(rule.state_floats), chunk, next, count, staleness,
                block);
    next += count;
    count = 0;
  };
  for (int64_t i = 0; i < chunk.count; i += 32) {
    for (uint32_t bits = payload.BitsAt(i); bits != 0; bits &= bits - 1) {
      block->place[count++] = static_cast<int32_t>(i + std::countr_zero(bits));
      if (count == kBlockFloats) merge();
    }
  }
  if (count > 0) merge();
}

}  // namespace millrace::inline exchange::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MILLRACE_EXCHANGE_KERNELS_SPAN_LOOPS_INL_H_
