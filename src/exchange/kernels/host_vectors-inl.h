// Loops over vectors of one instruction set, and reductions over a chunk. Compiled once for each
// set (host_loops.h); in the namespace of the set, as Highway's functions are.
//
// Merge rules and codec.h compute on GCC's vector types, which are Vec<D>::raw. `d` is Highway's
// tag of a vector type: so many floats.
#if defined(MILLRACE_EXCHANGE_KERNELS_HOST_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_EXCHANGE_KERNELS_HOST_VECTORS_INL_H_
#undef MILLRACE_EXCHANGE_KERNELS_HOST_VECTORS_INL_H_
#else
#define MILLRACE_EXCHANGE_KERNELS_HOST_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "exchange/kernels/codec.h"

// Attributes of a lambda: compiled for the set of the loop around it, and part of it.
#undef MILLRACE_STEP
#define MILLRACE_STEP HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace millrace::inline exchange::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The widest vectors of the set.
using Widest = hn::CappedTag<float, 16>;
constexpr auto kWidestLanes = static_cast<int64_t>(hn::MaxLanes(Widest()));

template <class D>
HWY_INLINE auto LoadFloats(D d, const float* from) {
  return hn::LoadU(d, from).raw;
}

template <class D, typename Floats>
HWY_INLINE void StoreFloats(D d, Floats value, float* to) {
  hn::StoreU(hn::Vec<D>{value}, d, to);
}

// Calls step(d, i) for each vector from element i on, with narrower vectors for the last elements.
template <class D, typename Step>
HWY_INLINE void ForEachVector(D d, int64_t count, const Step& step, int64_t i = 0) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
#pragma GCC unroll 4
  for (; i + kLanes <= count; i += kLanes) step(d, i);
  if constexpr (kLanes > 1) ForEachVector(hn::Half<D>(), count, step, i);
}

// The same for the widest vectors; calls both(i) for two of them where there are two. Vectors of a
// cache line are placed so that they do not cross lines of `aligned`, the array that is stored to:
// a store that crosses a line takes as long as two.
template <typename Both, typename Step>
HWY_INLINE void ForEachAlignedPair(const float* aligned, int64_t count, const Both& both,
                                   const Step& step) {
  int64_t i = 0;
  if constexpr (kWidestLanes * sizeof(float) == 64) {
    const auto place = static_cast<int64_t>(reinterpret_cast<uintptr_t>(aligned) / sizeof(float));
    i = std::min(-place & (kWidestLanes - 1), count);
    ForEachVector(hn::Half<Widest>(), i, step);
  }
#pragma GCC unroll 2
  for (; i + 2 * kWidestLanes <= count; i += 2 * kWidestLanes) both(i);
  ForEachVector(Widest(), count, step, i);
}

struct NoLanes {};

// Reduces bit patterns, per lane. D: signed integers.
template <class D>
struct LaneAccumulator {
  decltype(hn::Zero(D()).raw) bits = {};
  HWY_INLINE void Largest(hn::Vec<D> x) { bits = hn::Max(hn::Vec<D>{bits}, x).raw; }
  HWY_INLINE void Any(hn::Vec<D> x) { bits = hn::Or(hn::Vec<D>{bits}, x).raw; }
  template <typename Floats>
  HWY_INLINE void Largest(Floats x) {
    Largest(BitsOfFloats(Magnitude(x)));
  }
  template <typename Floats>
  HWY_INLINE void Any(Floats x) {
    Any(BitsOfFloats(ToBits(x)));
  }

 private:
  template <typename Bits>
  static HWY_INLINE hn::Vec<D> BitsOfFloats(Bits x) {
    return hn::Vec<D>{__builtin_bit_cast(decltype(bits), x)};
  }
};

// One accumulator for each width of vectors in a chunk, so that each stays in a register.
template <class D>
struct Accumulator : std::conditional_t<hn::MaxLanes(D()) == 1, NoLanes, Accumulator<hn::Half<D>>> {
  using Narrower = Accumulator<hn::Half<D>>;
  LaneAccumulator<D> own;

  // For vectors of as many lanes as `which` has.
  template <class Which>
  HWY_INLINE auto& Of(Which /*which*/) {
    return static_cast<Accumulator<hn::Rebind<hn::TFromD<D>, Which>>*>(this)->own;
  }
  HWY_INLINE hn::TFromD<D> Largest() const {
    return Fold(hn::Zero(D()), [](auto a, auto b) MILLRACE_STEP { return hn::Max(a, b); });
  }
  // True if any accumulated float was neither 0 nor -0.
  HWY_INLINE bool Any() const {
    const auto any = Fold(hn::Zero(D()), [](auto a, auto b) MILLRACE_STEP { return hn::Or(a, b); });
    return (any & kMagnitudeBits) != 0;
  }
  // Folds `wider`, to which wider vectors have been folded, and all lanes from this width on.
  template <typename Both>
  HWY_INLINE hn::TFromD<D> Fold(hn::Vec<D> wider, const Both& both) const {
    const hn::Vec<D> all = both(wider, hn::Vec<D>{own.bits});
    if constexpr (hn::MaxLanes(D()) == 1) {
      return hn::GetLane(all);
    } else {
      const hn::Half<D> half;
      return Narrower::Fold(both(hn::LowerHalf(half, all), hn::UpperHalf(half, all)), both);
    }
  }
};

// The integers of the widest vectors of floats.
using WidestBits = hn::RebindToSigned<Widest>;

}  // namespace millrace::inline exchange::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_VECTORS_INL_H_
