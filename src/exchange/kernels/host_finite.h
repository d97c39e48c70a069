// Whether a payload's floats are all finite: what is looked at before anything is
// written. Each function has the same result in all instruction sets. The floats
// may lie anywhere; `count` >= 0 elements.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_FINITE_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_FINITE_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "base/simd.h"
#include "exchange/kernels/codec.h"

namespace millrace {

bool AllFiniteSse(const std::byte* floats, int64_t count);
bool AllFiniteAvx2(const std::byte* floats, int64_t count);
bool AllFiniteAvx512(const std::byte* floats, int64_t count);

// Of bfloat16, two bytes each.
bool AllFiniteBfloat16Sse(const std::byte* halves, int64_t count);
bool AllFiniteBfloat16Avx2(const std::byte* halves, int64_t count);

// The pieces: of sixteen halves from element i on. The largest of these tells whether all
// are finite.
MILLRACE_INLINE_AVX2 __m256i HalfMagnitudes(const std::byte* halves, int64_t i) {
  return _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves + 2 * i)),
                          _mm256_set1_epi16(0x7fff));
}
MILLRACE_INLINE_AVX2 bool HalvesAreFinite(__m256i magnitudes) {
  const __m256i infinity = _mm256_set1_epi16(kInfinityBits >> 16);
  return _mm256_movemask_epi8(_mm256_cmpgt_epi16(infinity, magnitudes)) == -1;
}

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_FINITE_H_
