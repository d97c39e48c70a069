#include "exchange/kernels/host_finite.h"

#include <immintrin.h>

#include <cstring>

#include "base/simd.h"
#include "exchange/kernels/codec.h"

namespace millrace {
namespace {

inline __attribute__((always_inline)) float FloatAt(const std::byte* floats, int64_t i) {
  float x;
  std::memcpy(&x, floats + 4 * i, sizeof(x));
  return x;
}

// x - x for the eight floats from element i on: 0, or NaN where x is not finite. A bitwise OR of
// results preserves a NaN.
MILLRACE_INLINE_AVX2 __m256 NothingIfFinite(const std::byte* floats, int64_t i) {
  const __m256 x = _mm256_loadu_ps(reinterpret_cast<const float*>(floats + 4 * i));
  return _mm256_sub_ps(x, x);
}
MILLRACE_INLINE_AVX2 bool IsNothing(__m256 x) {
  return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) == 0;
}

// Pads with zeros.
MILLRACE_INLINE_AVX2 __m256i HalfMagnitudesRest(const std::byte* halves, int64_t i, int64_t count) {
  alignas(32) std::byte rest[32] = {};
  std::memcpy(rest, halves + 2 * i, 2 * (count - i));
  return HalfMagnitudes(rest, 0);
}

}  // namespace

bool AllFiniteSse(const std::byte* floats, int64_t count) {
  __m128 nothing = _mm_setzero_ps();
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m128 x = _mm_loadu_ps(reinterpret_cast<const float*>(floats + 4 * i));
    nothing = _mm_or_ps(nothing, _mm_sub_ps(x, x));
  }
  bool finite = _mm_movemask_ps(_mm_cmpunord_ps(nothing, nothing)) == 0;
  for (; i < count; ++i) finite &= Magnitude(FloatAt(floats, i)) < kInfinityBits;
  return finite;
}

// Four independent accumulators hide the latency. The last vector overlaps the one before it.
MILLRACE_AVX2 bool AllFiniteAvx2(const std::byte* floats, int64_t count) {
  if (count < 8) return AllFiniteSse(floats, count);
  __m256 a = _mm256_setzero_ps(), b = a, c = a, d = NothingIfFinite(floats, count - 8);
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    a = _mm256_or_ps(a, NothingIfFinite(floats, i));
    b = _mm256_or_ps(b, NothingIfFinite(floats, i + 8));
    c = _mm256_or_ps(c, NothingIfFinite(floats, i + 16));
    d = _mm256_or_ps(d, NothingIfFinite(floats, i + 24));
  }
  for (; i + 8 <= count; i += 8) a = _mm256_or_ps(a, NothingIfFinite(floats, i));
  return IsNothing(_mm256_or_ps(_mm256_or_ps(a, b), _mm256_or_ps(c, d)));
}

// Like AllFiniteAvx2(), with wider vectors.
MILLRACE_AVX512 bool AllFiniteAvx512(const std::byte* floats, int64_t count) {
  if (count < 16) return AllFiniteAvx2(floats, count);
  const auto not_finite =
      [](const std::byte* at) __attribute__((always_inline, target(MILLRACE_TARGET_Avx512))) {
    Avx512::Float x;
    std::memcpy(&x, at, sizeof(x));
    return ToBits(x - x);
  };
  Avx512::Int a = not_finite(floats + 4 * (count - 16)), b = {};
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    a |= not_finite(floats + 4 * i);
    b |= not_finite(floats + 4 * i + 64);
  }
  if (i + 16 <= count) b |= not_finite(floats + 4 * i);
  return _mm512_test_epi32_mask(__m512i(a | b), __m512i(a | b)) == 0;
}

bool AllFiniteBfloat16Sse(const std::byte* halves, int64_t count) {
  __m128i largest = _mm_setzero_si128();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + 2 * i));
    largest = _mm_max_epi16(largest, _mm_and_si128(eight, _mm_set1_epi16(0x7fff)));
  }
  const __m128i infinity = _mm_set1_epi16(kInfinityBits >> 16);
  bool finite = _mm_movemask_epi8(_mm_cmplt_epi16(largest, infinity)) == 0xffff;
  for (; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof(half));
    finite &= Magnitude(Bfloat16Value(half)) < kInfinityBits;
  }
  return finite;
}

MILLRACE_AVX2 bool AllFiniteBfloat16Avx2(const std::byte* halves, int64_t count) {
  __m256i a = _mm256_setzero_si256(), b = a;
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    a = _mm256_max_epi16(a, HalfMagnitudes(halves, i));
    b = _mm256_max_epi16(b, HalfMagnitudes(halves, i + 16));
  }
  for (; i + 16 <= count; i += 16) a = _mm256_max_epi16(a, HalfMagnitudes(halves, i));
  if (count >= 16) {
    b = _mm256_max_epi16(b, HalfMagnitudes(halves, count - 16));
  } else {
    b = HalfMagnitudesRest(halves, i, count);
  }
  return HalvesAreFinite(_mm256_max_epi16(a, b));
}

}  // namespace millrace
