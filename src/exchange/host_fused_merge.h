// Merging straight from packed payloads, for AVX2: a dense copy in between costs as
// much as the merge itself where the weights are in cache. The bodies stand in
// functions of that instruction set, and not in templates over sets like those of
// host_loops.h, because only there may they use intrinsics.
#ifndef MILLRACE_EXCHANGE_HOST_FUSED_MERGE_H_
#define MILLRACE_EXCHANGE_HOST_FUSED_MERGE_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "exchange/codec.h"
#include "exchange/host_loops.h"

namespace millrace {

// `bytes`: one for each element; a checked payload behind its scale.
template <typename Rule>
__attribute__((noinline, target(MILLRACE_TARGET_Avx2))) void HogwildExchangeMergeInt8(
    const Rule& shared_rule, const ChunkSpan& shared_chunk, float scale, const std::byte* bytes,
    uint32_t staleness) {
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
    MergeOne<OneLane>(rule, chunk, d, staleness, i);
  }
}

// `halves`: two bytes for each element, all finite.
template <typename Rule>
__attribute__((noinline, target(MILLRACE_TARGET_Avx2))) void HogwildExchangeMergeBfloat16(
    const Rule& shared_rule, const ChunkSpan& shared_chunk, const std::byte* halves,
    uint32_t staleness) {
  const Rule rule = shared_rule;
  const ChunkSpan chunk = shared_chunk;
  int64_t i = 0;
#pragma GCC unroll 4
  for (; i + 8 <= chunk.count; i += 8) {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + 2 * i));
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16);
    MergeOne<Avx2>(rule, chunk, Avx2::Float(bits), staleness, i);
  }
  for (; i < chunk.count; ++i) {
    uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof(half));
    MergeOne<OneLane>(rule, chunk, Bfloat16Value(half), staleness, i);
  }
}

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_HOST_FUSED_MERGE_H_
