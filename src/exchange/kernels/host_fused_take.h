// Taking diffs directly into packed payloads with AVX2 and AVX-512. A separate pass that packs
// `pending` costs half as much as the move if the weights are in cache. As in host_fused_merge.h,
// code with intrinsics is in functions of the matching instruction set. A `Encoder` class
// (Bfloat16Encoder, Int8Encoder, SparseEncoder) rounds selected values, writes them encoded, and
// returns d.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_FUSED_TAKE_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_FUSED_TAKE_H_

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_loops.h"

namespace millrace {

// Full mask: GCC 12 warns about its own unmasked intrinsics.
inline constexpr __mmask16 kAll16 = 0xffff;

class Bfloat16Encoder {
 public:
  explicit Bfloat16Encoder(std::byte* out) : out_(out) {}
  static constexpr int32_t overflow() { return kBfloat16OverflowBits; }

  MILLRACE_INLINE_AVX2 Avx2::Float Take(Avx2, Avx2::Float selected, int64_t i) {
    const Avx2::Float d = Bfloat16Codec{}.Round(selected);
    const __m256i halves = _mm256_srai_epi32(__m256i(d), 16);
    const __m128i low = _mm256_castsi256_si128(halves), high = _mm256_extracti128_si256(halves, 1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out_ + 2 * i), _mm_packs_epi32(low, high));
    return d;
  }
  MILLRACE_INLINE_AVX512 Avx512::Float Take(Avx512, Avx512::Float selected, int64_t i) {
    const Avx512::Float d = Bfloat16Codec{}.Round(selected);
    const __m512i halves = __m512i(ToBits(d) >> 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out_ + 2 * i),
                        _mm512_maskz_cvtepi32_epi16(kAll16, halves));
    return d;
  }
  MILLRACE_INLINE_AVX2 float Take(Scalar, float selected, int64_t i) {
    const float d = Bfloat16Codec{}.Round(selected);
    const uint16_t half = Bfloat16Half(d);
    std::memcpy(out_ + 2 * i, &half, sizeof(half));
    return d;
  }

 private:
  std::byte* out_;
};

class Int8Encoder {
 public:
  // `out` points behind the scale.
  Int8Encoder(float scale, std::byte* out) : codec_{scale}, out_(out) {}
  static constexpr int32_t overflow() { return Int8Codec::overflow(); }

  // Int8Codec::Round() with integers. The conversion also rounds to nearest, ties to even.
  MILLRACE_INLINE_AVX2 Avx2::Float Take(Avx2, Avx2::Float selected, int64_t i) {
    const __m256 most = _mm256_set1_ps(kInt8Levels), least = _mm256_set1_ps(-kInt8Levels);
    const __m256 q = _mm256_div_ps(selected, _mm256_set1_ps(codec_.divisor()));
    const __m256i levels = _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(q, most), least));
    const __m128i halves =
        _mm_packs_epi32(_mm256_castsi256_si128(levels), _mm256_extracti128_si256(levels, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out_ + i), _mm_packs_epi16(halves, halves));
    return _mm256_mul_ps(_mm256_set1_ps(codec_.scale), _mm256_cvtepi32_ps(levels));
  }
  MILLRACE_INLINE_AVX512 Avx512::Float Take(Avx512, Avx512::Float selected, int64_t i) {
    const __m512 most = _mm512_set1_ps(kInt8Levels), least = _mm512_set1_ps(-kInt8Levels);
    const __m512 q = _mm512_div_ps(selected, _mm512_set1_ps(codec_.divisor()));
    const __m512i levels = _mm512_maskz_cvtps_epi32(
        kAll16, _mm512_maskz_max_ps(kAll16, _mm512_maskz_min_ps(kAll16, q, most), least));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out_ + i),
                     _mm512_maskz_cvtepi32_epi8(kAll16, levels));
    return _mm512_mul_ps(_mm512_set1_ps(codec_.scale), _mm512_maskz_cvtepi32_ps(kAll16, levels));
  }
  MILLRACE_INLINE_AVX2 float Take(Scalar, float selected, int64_t i) {
    const float level = codec_.Level(selected);
    out_[i] = static_cast<std::byte>(static_cast<int8_t>(level));
    return codec_.scale * level;
  }

 private:
  Int8Codec codec_;
  std::byte* out_;
};

// For each byte of a bitmap: the lanes of its present elements, in order.
inline constexpr auto kLanesOfBits = [] {
  std::array<std::array<uint8_t, 8>, 256> lanes{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    size_t present = 0;
    for (uint8_t lane = 0; lane < 8; ++lane) {
      if (bits >> lane & 1) lanes[bits][present++] = lane;
    }
  }
  return lanes;
}();

// Writes a bitmap and appends the present elements. Each step stores eight floats and advances past
// the present ones only, so the next step overwrites the others. It stops appending when fewer than
// 32 bytes of room remain. Only for AVX2.
class SparseEncoder {
 public:
  SparseEncoder(float threshold, int64_t count, std::byte* out, int64_t room)
      : codec_{threshold}, out_(out), at_(SparseBitmapBytes(count)), last_(room - 32) {
    std::memset(out + at_ - 4, 0, 4);  // the last bitmap word may extend beyond the last element
  }
  static constexpr int32_t overflow() { return SparseCodec::overflow(); }

  MILLRACE_INLINE_AVX2 Avx2::Float Take(Avx2, Avx2::Float selected, int64_t i) {
    const Avx2::Float d = codec_.Round(selected);
    const __m256 present = _mm256_cmp_ps(d, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    const auto bits = static_cast<unsigned>(_mm256_movemask_ps(present));
    out_[i / 8] = static_cast<std::byte>(bits);
    if (at_ > last_) return d;
    const __m256i lanes = _mm256_cvtepu8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kLanesOfBits[bits].data())));
    _mm256_storeu_ps(reinterpret_cast<float*>(out_ + at_), _mm256_permutevar8x32_ps(d, lanes));
    at_ += 4 * __builtin_popcount(bits);
    return d;
  }
  MILLRACE_INLINE_AVX2 float Take(Scalar, float selected, int64_t i) {
    const float d = codec_.Round(selected);
    const unsigned present = d != 0;
    out_[i / 8] |= static_cast<std::byte>(present << i % 8);
    if (at_ > last_) return d;
    std::memcpy(out_ + at_, &d, sizeof(d));
    at_ += 4 * present;
    return d;
  }
  // Size of the payload in bytes; 0 if it may not have fit.
  uint32_t bytes() const { return at_ > last_ ? 0 : static_cast<uint32_t>(at_); }

 private:
  SparseCodec codec_;
  std::byte* out_;
  int64_t at_, last_;
};

// Processes whole vectors of `Set` from element i on.
#define MILLRACE_TAKE_VECTORS(Set)                                           \
  for (; i + Set::kLanes <= chunk.count; i += Set::kLanes) {                 \
    const Set::Float u = Progress<Set>(chunk, i);                            \
    const Set::Float selected = Selected<Set>(rule, u, Encoder::overflow()); \
    const Set::Float d = encoder.Take(Set{}, selected, i);                   \
    taken.Of(Set{}).Any(d);                                                  \
    MoveOne<Set>(rule, chunk, position, i, u, d, d, &remainder.Of(Set{}));   \
    StoreFloats<Set>(chunk.pending + i, d);                                  \
  }

// HogwildExchangeMove<Pending::kTaken>() that also packs the diff: whole vectors first, then single
// elements. If nothing is taken, the output of `encoder` is meaningless.
#define MILLRACE_TAKE_PACKED(Set, vectors)                                                    \
  template <typename Rule, typename Encoder>                                                  \
  MILLRACE_KERNEL(Set)                                                                        \
  MoveResult HogwildExchangeTakeEncoded(Set, const Rule& shared_rule,                         \
                                        const ChunkSpan& shared_chunk, const float* position, \
                                        Encoder* shared_encoder) {                            \
    const Rule rule = shared_rule;                                                            \
    const ChunkSpan chunk = shared_chunk;                                                     \
    Encoder encoder = *shared_encoder;                                                        \
    Accumulator<Set> taken, remainder;                                                        \
    int64_t i = 0;                                                                            \
    vectors;                                                                                  \
    MILLRACE_TAKE_VECTORS(Scalar);                                                            \
    *shared_encoder = encoder;                                                                \
    return {taken.Any(), remainder.Any()};                                                    \
  }
MILLRACE_TAKE_PACKED(Avx2, MILLRACE_TAKE_VECTORS(Avx2))
MILLRACE_TAKE_PACKED(Avx512, MILLRACE_TAKE_VECTORS(Avx512) MILLRACE_TAKE_VECTORS(Avx2))
#undef MILLRACE_TAKE_PACKED
#undef MILLRACE_TAKE_VECTORS

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_FUSED_TAKE_H_
