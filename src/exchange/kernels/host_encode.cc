#include "exchange/kernels/host_encode.h"

#include <immintrin.h>

#include <bit>
#include <cstring>

#include "base/simd.h"
#include "exchange/kernels/codec.h"

namespace millrace {
namespace {

#define MILLRACE_SSE inline __attribute__((always_inline))

MILLRACE_SSE void Put(std::byte* out, __m128i x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), x);
}
MILLRACE_SSE __m128i Get(const std::byte* in) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
}

// ---- Scalar: the remaining elements. ----

MILLRACE_SSE void PackBfloat16Rest(const float* d, int64_t i, int64_t count, std::byte* out) {
  for (; i < count; ++i) {
    const uint16_t half = Bfloat16Half(d[i]);
    std::memcpy(out + 2 * i, &half, sizeof(half));
  }
}

MILLRACE_SSE void PackInt8Rest(float scale, const float* d, int64_t i, int64_t count,
                               std::byte* out) {
  const Int8Codec codec{scale};
  for (; i < count; ++i) out[i] = static_cast<std::byte>(static_cast<int8_t>(codec.Level(d[i])));
}

// Bitmap word of `count` <= 32 elements.
MILLRACE_SSE uint32_t BitmapRest(const float* d, int64_t count) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < count; ++i) bits |= uint32_t{d[i] != 0} << i;
  return bits;
}

MILLRACE_SSE int64_t PutBitmap(uint32_t bits, int64_t word, std::byte* out) {
  std::memcpy(out + 4 * word, &bits, sizeof(bits));
  return std::popcount(bits);
}

MILLRACE_SSE uint32_t BitmapWord(const std::byte* bitmap, int64_t word) {
  uint32_t bits;
  std::memcpy(&bits, bitmap + 4 * word, sizeof(bits));
  return bits;
}

MILLRACE_SSE int64_t Present(const std::byte* bitmap, int64_t count) {
  const int64_t whole = count / 32;
  int64_t present = 0;
  for (int64_t word = 0; word < whole; ++word) present += std::popcount(BitmapWord(bitmap, word));
  if (count % 32 == 0) return present;
  const uint32_t last = BitmapWord(bitmap, whole);
  return last >> count % 32 != 0 ? -1 : present + std::popcount(last);
}

// d is q * scale, rounded, with the q of Int8Codec::Level(). Multiplication by the reciprocal
// recovers q: the error is at most 127 times three roundings of 2^-24, far below one half. This
// requires a finite reciprocal with a single rounding; for other scales, elements are packed one at
// a time.
bool ReciprocalIsSafe(float scale) { return scale > 0x1p-125f && scale < 0x1p125f; }

// ---- SSE2 ----

MILLRACE_SSE __m128i Levels(const float* d, __m128 inverse) {
  return _mm_cvtps_epi32(_mm_mul_ps(_mm_loadu_ps(d), inverse));
}

MILLRACE_SSE __m128i SignedHalves(const float* d) {
  return _mm_srai_epi32(_mm_castps_si128(_mm_loadu_ps(d)), 16);
}

// ---- AVX2 ----

MILLRACE_AVX2 inline __m256i WideLevels(const float* d, __m256 inverse) {
  return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(d), inverse));
}

MILLRACE_AVX2 inline __m256i WideHalves(const float* d) {
  return _mm256_srai_epi32(_mm256_castps_si256(_mm256_loadu_ps(d)), 16);
}

MILLRACE_AVX2 inline uint32_t WideBits(const float* d) {
  return static_cast<uint32_t>(
      _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(d), _mm256_setzero_ps(), _CMP_NEQ_UQ)));
}

}  // namespace

void PackBfloat16Sse(const float* d, int64_t count, std::byte* out) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    Put(out + 2 * i, _mm_packs_epi32(SignedHalves(d + i), SignedHalves(d + i + 4)));
  }
  PackBfloat16Rest(d, i, count, out);
}

MILLRACE_AVX2 void PackBfloat16Avx2(const float* d, int64_t count, std::byte* out) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i halves = _mm256_packs_epi32(WideHalves(d + i), WideHalves(d + i + 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 2 * i),
                        _mm256_permute4x64_epi64(halves, 0xd8));
  }
  PackBfloat16Rest(d, i, count, out);
}

void UnpackBfloat16(const std::byte* in, int64_t count, float* values) {
  const __m128i zero = _mm_setzero_si128();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = Get(in + 2 * i);
    Put(reinterpret_cast<std::byte*>(values + i), _mm_unpacklo_epi16(zero, halves));
    Put(reinterpret_cast<std::byte*>(values + i + 4), _mm_unpackhi_epi16(zero, halves));
  }
  for (; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, in + 2 * i, sizeof(half));
    values[i] = Bfloat16Value(half);
  }
}

void PackInt8Sse(float scale, const float* d, int64_t count, std::byte* out) {
  int64_t i = 0;
  const __m128 inverse = _mm_set1_ps(1 / scale);
  for (; ReciprocalIsSafe(scale) && i + 16 <= count; i += 16) {
    const __m128i low = _mm_packs_epi32(Levels(d + i, inverse), Levels(d + i + 4, inverse));
    const __m128i high = _mm_packs_epi32(Levels(d + i + 8, inverse), Levels(d + i + 12, inverse));
    Put(out + i, _mm_packs_epi16(low, high));
  }
  PackInt8Rest(scale, d, i, count, out);
}

MILLRACE_AVX2 void PackInt8Avx2(float scale, const float* d, int64_t count, std::byte* out) {
  int64_t i = 0;
  const __m256 inverse = _mm256_set1_ps(1 / scale);
  // The pack instructions work within 128-bit lanes; this permutation restores the element order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (; ReciprocalIsSafe(scale) && i + 32 <= count; i += 32) {
    const __m256i low =
        _mm256_packs_epi32(WideLevels(d + i, inverse), WideLevels(d + i + 8, inverse));
    const __m256i high =
        _mm256_packs_epi32(WideLevels(d + i + 16, inverse), WideLevels(d + i + 24, inverse));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
  }
  PackInt8Rest(scale, d, i, count, out);
}

void UnpackInt8(float scale, const std::byte* in, int64_t count, float* values) {
  const __m128 by = _mm_set1_ps(scale);
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i bytes = Get(in + i);
    const __m128i halves[2] = {_mm_unpacklo_epi8(bytes, bytes), _mm_unpackhi_epi8(bytes, bytes)};
    for (int half = 0; half < 2; ++half) {
      const __m128i x = halves[half];
      const __m128i low = _mm_srai_epi32(_mm_unpacklo_epi16(x, x), 24);
      const __m128i high = _mm_srai_epi32(_mm_unpackhi_epi16(x, x), 24);
      _mm_storeu_ps(values + i + 8 * half, _mm_mul_ps(by, _mm_cvtepi32_ps(low)));
      _mm_storeu_ps(values + i + 8 * half + 4, _mm_mul_ps(by, _mm_cvtepi32_ps(high)));
    }
  }
  for (; i < count; ++i) values[i] = scale * static_cast<float>(static_cast<int8_t>(in[i]));
}

int64_t PackBitmapSse(const float* d, int64_t count, std::byte* out) {
  int64_t present = 0, i = 0;
  for (; i + 32 <= count; i += 32) {
    uint32_t bits = 0;
    for (int four = 0; four < 8; ++four) {
      const __m128 set = _mm_cmpneq_ps(_mm_loadu_ps(d + i + 4 * four), _mm_setzero_ps());
      bits |= static_cast<uint32_t>(_mm_movemask_ps(set)) << (4 * four);
    }
    present += PutBitmap(bits, i / 32, out);
  }
  if (i < count) present += PutBitmap(BitmapRest(d + i, count - i), i / 32, out);
  return present;
}

MILLRACE_AVX2 int64_t PackBitmapAvx2(const float* d, int64_t count, std::byte* out) {
  int64_t present = 0, i = 0;
  for (; i + 32 <= count; i += 32) {
    const uint32_t bits = WideBits(d + i) | WideBits(d + i + 8) << 8 | WideBits(d + i + 16) << 16 |
                          WideBits(d + i + 24) << 24;
    present += PutBitmap(bits, i / 32, out);
  }
  if (i < count) present += PutBitmap(BitmapRest(d + i, count - i), i / 32, out);
  return present;
}

int64_t PresentSse(const std::byte* bitmap, int64_t count) { return Present(bitmap, count); }

MILLRACE_AVX2 int64_t PresentAvx2(const std::byte* bitmap, int64_t count) {
  return Present(bitmap, count);
}

}  // namespace millrace
