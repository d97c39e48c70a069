// Encoding and decoding of vectors, one overload for each payload (host_types.h). Compiled once for
// each instruction set.
#if defined(MILLRACE_EXCHANGE_KERNELS_HOST_CODECS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_EXCHANGE_KERNELS_HOST_CODECS_INL_H_
#undef MILLRACE_EXCHANGE_KERNELS_HOST_CODECS_INL_H_
#else
#define MILLRACE_EXCHANGE_KERNELS_HOST_CODECS_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_types.h"
#include "exchange/kernels/host_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::inline exchange::HWY_NAMESPACE {

// ---- d of the selected values from element i on, which is written ----

template <class D, typename Floats>
HWY_INLINE Floats Encode(D d, Float32Encoder* to, Floats selected, int64_t i) {
  if (to->out != nullptr) StoreFloats(d, selected, to->out + i);
  return selected;
}

template <class D, typename Floats>
HWY_INLINE Floats Encode(D, Bfloat16Encoder* to, Floats selected, int64_t i) {
  const Floats diff = to->codec.Round(selected);
  const hn::Rebind<int16_t, D> d16;
  const auto bits = hn::BitCast(hn::RebindToSigned<D>(), hn::Vec<D>{diff});
  hn::StoreU(hn::DemoteTo(d16, hn::ShiftRight<16>(bits)), d16,
             reinterpret_cast<int16_t*>(to->out + 2 * i));
  return diff;
}

// Int8Codec::Round(). The lowest byte of the sum that rounds is the level.
template <class D, typename Floats>
HWY_INLINE Floats Encode(D d, Int8Encoder* to, Floats selected, int64_t i) {
  const hn::Rebind<uint8_t, D> d8;
  const auto rounds = hn::Set(d, Int8Codec::kRounds);
  const auto q = hn::Div(hn::Vec<D>{selected}, hn::Set(d, DivisorOf(to->codec.scale)));
  const auto sum =
      hn::Add(rounds, hn::Max(hn::Min(q, hn::Set(d, kInt8Levels)), hn::Set(d, -kInt8Levels)));
  hn::StoreU(hn::TruncateTo(d8, hn::BitCast(hn::RebindToUnsigned<D>(), sum)), d8,
             reinterpret_cast<uint8_t*>(to->out + i));
  return hn::Mul(hn::Set(d, to->codec.scale), hn::Sub(sum, rounds)).raw;
}

// All lanes are of one block.
template <class D, typename Floats>
HWY_INLINE Floats Encode(D, Int4Rounder* to, Floats selected, int64_t i) {
  static_assert(kInt4Block % hn::MaxLanes(D()) == 0);
  return Int4Codec{to->scales[i / kInt4Block]}.Round(selected);
}

// The present lanes of v, in order, of eight or more. With GCC 12, Compress() of Highway 1.0.3
// copies its table for eight lanes in each call.
template <class D>
HWY_INLINE hn::Vec<D> Compressed(D d, hn::Vec<D> v, hn::Mask<D> present, uint64_t bits) {
  if constexpr (hn::MaxLanes(D()) > 8) return hn::Compress(v, present);
  const hn::RebindToUnsigned<D> du;
  const auto lanes = hn::LoadU(hn::Rebind<uint8_t, D>(), kLanesOfBits[bits & 0xff].data());
  return hn::TableLookupLanes(v, hn::IndicesFromVec(d, hn::PromoteTo(du, lanes)));
}

// Writes the bitmap, and appends what is present by storing a whole vector, of which the next one
// overwrites the rest. Leaves to Finish() what has no room for that, and narrow vectors, for which
// single elements are faster.
template <class D, typename Floats>
HWY_INLINE Floats Encode(D d, SparseEncoder* to, Floats selected, int64_t i) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const Floats diff = to->codec.Round(selected);
  const hn::Vec<D> v{diff};
  const auto present = hn::Ne(v, hn::Zero(d));
  uint64_t bits = 0;
  hn::StoreMaskBits(d, present, reinterpret_cast<uint8_t*>(&bits));
  if constexpr (kLanes < 8) {
    to->out[i / 8] |= static_cast<std::byte>(bits << i % 8);
  } else {
    std::memcpy(to->out + i / 8, &bits, kLanes / 8);
    if (to->appended == i && to->room - to->at >= 4 * kLanes) {
      hn::StoreU(Compressed(d, v, present, bits), d, reinterpret_cast<float*>(to->out + to->at));
      to->at += 4 * std::popcount(bits);
      to->appended += kLanes;
    }
  }
  return diff;
}

template <class D, typename Floats>
HWY_INLINE Floats Encode(D d, ChosenEncoder* to, Floats selected, int64_t i) {
  const auto chosen = FromBits<Floats>(ToBits(selected) & ToBits(LoadFloats(d, to->mask + i)));
  return Encode(d, static_cast<SparseEncoder*>(to), chosen, i);
}

// ---- d from element i on ----

template <class D>
HWY_INLINE auto Decode(D d, const Float32Payload& from, int64_t i) {
  return LoadFloats(d, from.floats + i);
}

template <class D>
HWY_INLINE auto Decode(D d, const Bfloat16Payload& from, int64_t i) {
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(d16, from.halves + i));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits)).raw;
}

template <class D>
HWY_INLINE auto Decode(D d, const Int8Payload& from, int64_t i) {
  const hn::Rebind<int8_t, D> d8;
  const auto levels = hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(d8, from.levels + i));
  return hn::Mul(hn::Set(d, from.scale), hn::ConvertTo(d, levels)).raw;
}

// ---- Whether all values are finite. AddPair(): two of the widest vectors ----

template <typename Payload>
struct FiniteCheck;

template <>
struct FiniteCheck<Float32Payload> {
  // 0, or NaN where an element is not finite. Two hide the latency.
  Accumulator<WidestBits> differences;
  LaneAccumulator<WidestBits> others;

  template <class D>
  HWY_INLINE void Add(D d, const Float32Payload& from, int64_t i) {
    const auto x = Decode(d, from, i);
    differences.Of(d).Any(x - x);
  }
  HWY_INLINE void AddPair(const Float32Payload& from, int64_t i) {
    Add(Widest(), from, i);
    const auto x = Decode(Widest(), from, i + kWidestLanes);
    others.Any(x - x);
  }
  HWY_INLINE bool Passed() const { return PairsPassed() && !differences.Any(); }
  HWY_INLINE bool PairsPassed() const {
    const hn::Vec<WidestBits> even{differences.own.bits}, odd{others.bits};
    return hn::AllTrue(WidestBits(), hn::Eq(hn::Or(even, odd), hn::Zero(WidestBits())));
  }
};

template <>
struct FiniteCheck<Bfloat16Payload> {
  using Pair = hn::Twice<hn::Rebind<int16_t, Widest>>;
  Accumulator<Pair> magnitudes;

  template <class D>
  HWY_INLINE void AddHalves(D d16, const Bfloat16Payload& from, int64_t i) {
    const auto halves = hn::LoadU(d16, reinterpret_cast<const int16_t*>(from.halves + i));
    magnitudes.Of(d16).Largest(hn::And(halves, hn::Set(d16, kMagnitudeBits >> 16)));
  }
  template <class D>
  HWY_INLINE void Add(D, const Bfloat16Payload& from, int64_t i) {
    AddHalves(hn::Rebind<int16_t, D>(), from, i);
  }
  HWY_INLINE void AddPair(const Bfloat16Payload& from, int64_t i) { AddHalves(Pair(), from, i); }
  HWY_INLINE bool Passed() const { return magnitudes.Largest() < kInfinityBits >> 16; }
  HWY_INLINE bool PairsPassed() const {
    const hn::Vec<Pair> largest{magnitudes.own.bits};
    return hn::AllTrue(Pair(), hn::Lt(largest, hn::Set(Pair(), kInfinityBits >> 16)));
  }
};

}  // namespace millrace::inline exchange::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_CODECS_INL_H_
