#include "bench/exchange_bench/bounds.h"

#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace exchange_bench {
namespace {

#define AVX2 __attribute__((target("avx2,fma")))

using millrace::Codec;
using millrace::ReplicaArrays;

struct Chunk {
  float *weights, *base, *pending;
};

Chunk At(const ReplicaArrays& a, int64_t chunk) {
  const int64_t at = chunk * kChunk;
  return {a.weights + at, a.base + at, a.pending + at};
}

// The end of a chunk that is no whole vector: the mask of its elements.
AVX2 inline __m256i Mask(int64_t left) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(left)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

constexpr int64_t kVectors = kChunk / 8 * 8, kLeft = kChunk - kVectors;

// base and weights move by d = `d`, of u; the rest of u stays in weights.
AVX2 inline void Put(const Chunk& c, int64_t i, __m256 u, __m256 base, __m256 d) {
  const __m256 moved = _mm256_add_ps(base, d);
  _mm256_storeu_ps(c.base + i, moved);
  _mm256_storeu_ps(c.weights + i, _mm256_add_ps(moved, _mm256_sub_ps(u, d)));
  _mm256_storeu_ps(c.pending + i, d);
}

inline void PutOne(const Chunk& c, int64_t i, float d) {
  const float u = c.weights[i] - c.base[i];
  c.base[i] += d;
  c.weights[i] = c.base[i] + (u - d);
  c.pending[i] = d;
}

AVX2 void TakeFloat32(const Chunk& c, std::byte* frame) {
  float* out = reinterpret_cast<float*>(frame);
  for (int64_t i = 0; i < kVectors; i += 8) {
    const __m256 base = _mm256_loadu_ps(c.base + i);
    const __m256 u = _mm256_sub_ps(_mm256_loadu_ps(c.weights + i), base);
    _mm256_storeu_ps(out + i, u);
    Put(c, i, u, base, u);
  }
  for (int64_t i = kVectors; i < kChunk; ++i) {
    out[i] = c.weights[i] - c.base[i];
    PutOne(c, i, out[i]);
  }
}

AVX2 inline __m256i RoundBfloat16(__m256 u) {
  const __m256i bits = _mm256_castps_si256(u);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}

AVX2 void TakeBfloat16(const Chunk& c, std::byte* out) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000));
  for (int64_t i = 0; i < kVectors; i += 8) {
    const __m256 base = _mm256_loadu_ps(c.base + i);
    const __m256 u = _mm256_sub_ps(_mm256_loadu_ps(c.weights + i), base);
    const __m256i rounded = RoundBfloat16(u);
    Put(c, i, u, base, _mm256_castsi256_ps(_mm256_and_si256(rounded, upper)));
    const __m256i halves = _mm256_srai_epi32(rounded, 16);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(out + 2 * i),
        _mm_packs_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
  }
  for (int64_t i = kVectors; i < kChunk; ++i) {
    const float u = c.weights[i] - c.base[i];
    const auto bits = std::bit_cast<uint32_t>(u);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    std::memcpy(out + 2 * i, &rounded, 2);
    PutOne(c, i, std::bit_cast<float>(rounded << 16));
  }
}

AVX2 float LargestStep(const Chunk& c) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 largest = _mm256_setzero_ps();
  for (int64_t i = 0; i < kVectors; i += 8) {
    const __m256 u = _mm256_sub_ps(_mm256_loadu_ps(c.weights + i), _mm256_loadu_ps(c.base + i));
    largest = _mm256_max_ps(largest, _mm256_andnot_ps(sign, u));
  }
  float lanes[8], result = 0;
  _mm256_storeu_ps(lanes, largest);
  for (float lane : lanes) result = std::fmax(result, lane);
  for (int64_t i = kVectors; i < kChunk; ++i) {
    result = std::fmax(result, std::fabs(c.weights[i] - c.base[i]));
  }
  return result;
}

AVX2 void TakeInt8(const Chunk& c, std::byte* frame) {
  const float scale = LargestStep(c) / 127;
  std::memcpy(frame, &scale, 4);
  std::byte* out = frame + 4;
  const __m256 by = _mm256_set1_ps(scale);
  for (int64_t i = 0; i < kVectors; i += 8) {
    const __m256 base = _mm256_loadu_ps(c.base + i);
    const __m256 u = _mm256_sub_ps(_mm256_loadu_ps(c.weights + i), base);
    const __m256i q = _mm256_cvtps_epi32(_mm256_div_ps(u, by));
    Put(c, i, u, base, _mm256_mul_ps(by, _mm256_cvtepi32_ps(q)));
    const __m128i halves =
        _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i), _mm_packs_epi16(halves, halves));
  }
  for (int64_t i = kVectors; i < kChunk; ++i) {
    const float q = std::nearbyint((c.weights[i] - c.base[i]) / scale);
    out[i] = static_cast<std::byte>(static_cast<int8_t>(q));
    PutOne(c, i, scale * (q + 0.0f));  // no negative zero
  }
}

constexpr int64_t kBitmap = (kChunk + 31) / 32 * 4;

// Appends the elements of `bits` to the frame.
inline float* Append(uint32_t bits, const float* d, float* to) {
  for (; bits != 0; bits &= bits - 1) *to++ = d[std::countr_zero(bits)];
  return to;
}

AVX2 uint32_t TakeSparse(const Chunk& c, std::byte* frame) {
  const __m256 sign = _mm256_set1_ps(-0.0f), threshold = _mm256_set1_ps(kThreshold);
  float* to = reinterpret_cast<float*>(frame + kBitmap);
  std::memset(frame + kBitmap - 4, 0, 4);
  for (int64_t i = 0; i < kVectors; i += 8) {
    const __m256 base = _mm256_loadu_ps(c.base + i);
    const __m256 u = _mm256_sub_ps(_mm256_loadu_ps(c.weights + i), base);
    const __m256 set = _mm256_cmp_ps(_mm256_andnot_ps(sign, u), threshold, _CMP_GE_OQ);
    Put(c, i, u, base, _mm256_and_ps(set, u));
    const auto bits = static_cast<uint32_t>(_mm256_movemask_ps(set));
    frame[i / 8] = static_cast<std::byte>(bits);
    to = Append(bits, c.pending + i, to);
  }
  uint32_t bits = 0;
  for (int64_t i = kVectors; i < kChunk; ++i) {
    const float u = c.weights[i] - c.base[i];
    const bool set = std::fabs(u) >= kThreshold;
    bits |= uint32_t{set} << (i - kVectors);
    PutOne(c, i, set ? u : 0);
  }
  frame[kVectors / 8] = static_cast<std::byte>(bits);
  to = Append(bits, c.pending + kVectors, to);
  return static_cast<uint32_t>(reinterpret_cast<std::byte*>(to) - frame);
}

AVX2 inline void Add(float* weights, __m256 d) {
  _mm256_storeu_ps(weights, _mm256_add_ps(_mm256_loadu_ps(weights), d));
}

AVX2 void MergeFloat32(float* weights, const std::byte* frame) {
  const float* in = reinterpret_cast<const float*>(frame);
  for (int64_t i = 0; i < kVectors; i += 8) Add(weights + i, _mm256_loadu_ps(in + i));
  for (int64_t i = kVectors; i < kChunk; ++i) weights[i] += in[i];
}

AVX2 void MergeBfloat16(float* weights, const std::byte* in) {
  for (int64_t i = 0; i < kVectors; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 2 * i));
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
    Add(weights + i, _mm256_castsi256_ps(bits));
  }
  for (int64_t i = kVectors; i < kChunk; ++i) {
    uint16_t half;
    std::memcpy(&half, in + 2 * i, 2);
    weights[i] += std::bit_cast<float>(uint32_t{half} << 16);
  }
}

AVX2 void MergeInt8(float* weights, const std::byte* frame) {
  float scale;
  std::memcpy(&scale, frame, 4);
  const std::byte* in = frame + 4;
  const __m256 by = _mm256_set1_ps(scale);
  for (int64_t i = 0; i < kVectors; i += 8) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + i));
    const __m256 levels = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    Add(weights + i, _mm256_mul_ps(by, levels));
  }
  for (int64_t i = kVectors; i < kChunk; ++i) {
    weights[i] += scale * static_cast<float>(static_cast<int8_t>(in[i]));
  }
}

// Adds what is present only.
void MergeSparse(float* weights, const std::byte* frame) {
  const std::byte* from = frame + kBitmap;
  for (int64_t word = 0; 4 * word < kBitmap; ++word) {
    uint32_t bits;
    std::memcpy(&bits, frame + 4 * word, 4);
    for (; bits != 0; bits &= bits - 1, from += 4) {
      float d;
      std::memcpy(&d, from, 4);
      weights[32 * word + std::countr_zero(bits)] += d;
    }
  }
}

AVX2 void Exchange(const Chunk& c, const float* position) {
  int64_t i = 0;
  for (; i < kVectors; i += 8) {
    const __m256 u = _mm256_sub_ps(_mm256_loadu_ps(c.weights + i), _mm256_loadu_ps(c.base + i));
    const __m256 moved = _mm256_add_ps(_mm256_loadu_ps(position + i), u);
    _mm256_storeu_ps(c.base + i, moved);
    _mm256_storeu_ps(c.weights + i, moved);
    _mm256_storeu_ps(c.pending + i, u);
  }
  const __m256i mask = Mask(kLeft);
  const __m256 u =
      _mm256_sub_ps(_mm256_maskload_ps(c.weights + i, mask), _mm256_maskload_ps(c.base + i, mask));
  const __m256 moved = _mm256_add_ps(_mm256_maskload_ps(position + i, mask), u);
  _mm256_maskstore_ps(c.base + i, mask, moved);
  _mm256_maskstore_ps(c.weights + i, mask, moved);
  _mm256_maskstore_ps(c.pending + i, mask, u);
}

uint32_t TakeOne(const Chunk& c, Codec codec, std::byte* frame) {
  switch (codec) {
    case Codec::kFloat32:
      TakeFloat32(c, frame);
      return 4 * kChunk;
    case Codec::kBfloat16:
      TakeBfloat16(c, frame);
      return 2 * kChunk;
    case Codec::kInt8:
      TakeInt8(c, frame);
      return 4 + kChunk;
    case Codec::kSparse:
      return TakeSparse(c, frame);
    case Codec::kInt4:  // not measured
      break;
  }
  return 0;
}

}  // namespace

void BoundExchange(const ReplicaArrays& arrays, Frames* in) {
  for (int64_t i = 0; i < arrays.chunks(); ++i) Exchange(At(arrays, i), in->floats(i));
}

void BoundTake(const ReplicaArrays& arrays, Codec codec, Frames* out) {
  for (int64_t i = 0; i < arrays.chunks(); ++i) {
    out->used[i] = TakeOne(At(arrays, i), codec, out->at(i));
  }
}

void BoundMerge(const ReplicaArrays& arrays, Codec codec, Frames* in) {
  const auto merge = codec == Codec::kFloat32    ? MergeFloat32
                     : codec == Codec::kBfloat16 ? MergeBfloat16
                     : codec == Codec::kInt8     ? MergeInt8
                                                 : MergeSparse;
  for (int64_t i = 0; i < arrays.chunks(); ++i) merge(At(arrays, i).weights, in->at(i));
}

}  // namespace exchange_bench
