// Merging directly from packed payloads with AVX2. A dense intermediate copy costs as much as the
// merge itself if the weights are in cache. These functions carry the AVX2 target attribute, unlike
// the set-independent templates of host_loops.h, because only such functions may use intrinsics.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_FUSED_MERGE_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_FUSED_MERGE_H_

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_finite.h"
#include "exchange/kernels/host_loops.h"

namespace millrace {

// For each byte of a bitmap: the index of each lane's element among the present ones. An absent
// lane has a value that remains negative when up to 8 is added.
inline constexpr auto kRanksOfBits = [] {
  std::array<std::array<int8_t, 8>, 256> ranks{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    int8_t rank = 0;
    for (int lane = 0; lane < 8; ++lane) {
      const bool present = (bits >> lane & 1) != 0;
      ranks[bits][lane] = present ? rank : -128;
      rank = static_cast<int8_t>(rank + present);
    }
  }
  return ranks;
}();

// Merges eight bfloat16 elements.
template <typename Rule>
MILLRACE_INLINE_AVX2 void MergeHalves(const Rule& rule, const ChunkSpan& chunk,
                                      const std::byte* halves, uint32_t staleness, int64_t i) {
  const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + 2 * i));
  const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16);
  MergeOne<Avx2>(rule, chunk, Avx2::Float(bits), staleness, i);
}

// Merges a checked int8 payload. `bytes` follows its scale: one byte per element.
template <typename Rule>
MILLRACE_KERNEL(Avx2)
void HogwildExchangeMergeInt8(const Rule& shared_rule, const ChunkSpan& shared_chunk, float scale,
                              const std::byte* bytes, uint32_t staleness) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  const __m256 by = _mm256_set1_ps(scale);
  int64_t i = 0;
#pragma GCC unroll 4
  for (; i + 8 <= chunk.count; i += 8) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + i));
    const __m256 levels = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
    MergeOne<Avx2>(rule, chunk, Avx2::Float(_mm256_mul_ps(by, levels)), staleness, i);
  }
  for (; i < chunk.count; ++i) {
    const float d = scale * static_cast<float>(static_cast<int8_t>(bytes[i]));
    MergeOne<Scalar>(rule, chunk, d, staleness, i);
  }
}

// Minimum chunk size in elements for HogwildExchangeMergeBfloat16().
inline constexpr int64_t kLeastToLookAhead = 16;

// Merges the bfloat16 payload `in`. Returns whether the payload `next`, of the same size, is
// finite, as HogwildExchangeMergeAhead() does for float32. Both have two bytes per element;
// chunk.count must be at least kLeastToLookAhead.
template <typename Rule>
MILLRACE_KERNEL(Avx2)
bool HogwildExchangeMergeBfloat16(const Rule& shared_rule, const ChunkSpan& shared_chunk,
                                  const std::byte* in, uint32_t staleness, const std::byte* next) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  __m256i largest = HalfMagnitudes(next, chunk.count - 16);
  int64_t i = 0;
#pragma GCC unroll 2
  for (; i + 16 <= chunk.count; i += 16) {
    MergeHalves(rule, chunk, in, staleness, i);
    MergeHalves(rule, chunk, in, staleness, i + 8);
    largest = _mm256_max_epi16(largest, HalfMagnitudes(next, i));
  }
  if (i + 8 <= chunk.count) {
    MergeHalves(rule, chunk, in, staleness, i);
    i += 8;
  }
  for (; i < chunk.count; ++i) {
    uint16_t half;
    std::memcpy(&half, in + 2 * i, sizeof(half));
    MergeOne<Scalar>(rule, chunk, Bfloat16Value(half), staleness, i);
  }
  return HalvesAreFinite(largest);
}

// Bitmap of a sparse payload, and the range of its elements that are not consumed yet.
struct SparseElements {
  const std::byte* bitmap;
  const float* next;
  const float* end;
};

// Merges the elements marked in one bitmap word, one at a time.
template <typename Rule>
MILLRACE_HOST_DEVICE void MergeBits(const Rule& rule, const ChunkSpan& chunk, uint32_t bits,
                                    int64_t i, uint32_t staleness, const float** next) {
  for (; bits != 0; bits &= bits - 1) {
    MergeOne<Scalar>(rule, chunk, *(*next)++, staleness, i + __builtin_ctz(bits));
  }
}

inline uint32_t BitmapWord(const std::byte* bitmap, int64_t i) {
  uint32_t bits;
  std::memcpy(&bits, bitmap + i / 8, sizeof(bits));
  return bits;
}

// Merges a checked sparse payload. For rules with kZeroChangesNothing.
template <typename Rule>
void HogwildExchangeMergeSparse(Sse, const Rule& rule, const ChunkSpan& chunk,
                                const SparseElements& elements, uint32_t staleness) {
  const float* next = elements.next;
  for (int64_t i = 0; i < chunk.count; i += 32) {
    MergeBits(rule, chunk, BitmapWord(elements.bitmap, i), i, staleness, &next);
  }
}

// The same, eight lanes at a time with a blend, because branches on the bitmap are hard to predict.
// Bitmap words of 0 are skipped, so that their weights are not touched. Each step loads eight
// elements even if it uses fewer; near the end it loads the last eight.
template <typename Rule>
MILLRACE_KERNEL(Avx2)
void HogwildExchangeMergeSparse(Avx2, const Rule& shared_rule, const ChunkSpan& shared_chunk,
                                const SparseElements& elements, uint32_t staleness) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  const float* next = elements.next;
  const bool eight = elements.end - next >= 8;
  const float* const last = eight ? elements.end - 8 : next;
  const int64_t whole = eight ? chunk.count / 32 * 32 : 0;
  int64_t i = 0;
  for (; i < whole; i += 32) {
    const uint32_t word = BitmapWord(elements.bitmap, i);
    if (word == 0) continue;
#pragma GCC unroll 4
    for (int byte = 0; byte < 4; ++byte) {
      const unsigned bits = word >> (8 * byte) & 0xff;
      const float* from = next < last ? next : last;
      const __m256i ranks = _mm256_add_epi32(
          _mm256_cvtepi8_epi32(
              _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kRanksOfBits[bits].data()))),
          _mm256_set1_epi32(static_cast<int>(next - from)));
      const __m256 d = _mm256_permutevar8x32_ps(_mm256_loadu_ps(from), ranks);
      MergePresent<Avx2>(rule, chunk, Avx2::Float(d), Avx2::Int(ranks), staleness, i + 8 * byte);
      next += __builtin_popcount(bits);
    }
  }
  for (; i < chunk.count; i += 32) {
    MergeBits(rule, chunk, BitmapWord(elements.bitmap, i), i, staleness, &next);
  }
}

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_FUSED_MERGE_H_
