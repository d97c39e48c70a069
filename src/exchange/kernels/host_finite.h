// Checks whether all floats of a payload are finite, before anything is written. All instruction
// sets return the same result. The floats need no alignment; `count` >= 0 elements.
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

// The same for bfloat16, two bytes per element.
bool AllFiniteBfloat16Sse(const std::byte* halves, int64_t count);
bool AllFiniteBfloat16Avx2(const std::byte* halves, int64_t count);

// Building blocks for 16 bfloat16 values from element i on. All values are finite if the largest
// magnitude is.
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
