#include "exchange/host_payload.h"

#include <glog/logging.h>

#include <bit>
#include <cstring>

#include "exchange/codec.h"
#include "exchange/host_loops.h"
#include "exchange/host_pack.h"

namespace millrace {
namespace {

uint64_t BitmapWord(const std::byte* bitmap, int64_t word) {
  uint32_t bits;
  std::memcpy(&bits, bitmap + 4 * word, sizeof(bits));
  return bits;
}

// Present elements of a bitmap, or -1 if it has any beyond `count`.
int64_t Present(const std::byte* bitmap, int64_t count) {
  const int64_t words = (count + 31) / 32;
  int64_t present = 0;
  for (int64_t word = 0; word < words; ++word) present += std::popcount(BitmapWord(bitmap, word));
  const int64_t in_last = count - 32 * (words - 1);
  return words > 0 && BitmapWord(bitmap, words - 1) >> in_last != 0 ? -1 : present;
}

int32_t LargestOf(const float* values, int64_t count, Simd simd) {
  switch (simd) {
    case Simd::kAvx512:
      return LargestMagnitude(Avx512{}, values, count);
    case Simd::kAvx2:
      return LargestMagnitude(Avx2{}, values, count);
    case Simd::kBaseline:
      break;
  }
  return LargestMagnitude(Sse{}, values, count);
}

// The wide one wherever it runs: whoever has AVX-512 has AVX2.
bool Wide(Simd simd) { return simd != Simd::kBaseline; }

uint32_t EncodeSparse(const float* d, int64_t count, std::byte* out, uint32_t room, Simd simd) {
  const uint32_t bitmap = SparseBitmapBytes(count);
  const int64_t present = Wide(simd) ? PackBitmapAvx2(d, count, out) : PackBitmapSse(d, count, out);
  const int64_t bytes = bitmap + 4 * present;
  if (bytes >= 4 * count) return 0;
  CHECK_LE(bytes, int64_t{room});
  std::byte* to = out + bitmap;
  for (int64_t word = 0; 32 * word < count; ++word) {
    for (uint64_t bits = BitmapWord(out, word); bits != 0; bits &= bits - 1, to += 4) {
      std::memcpy(to, d + 32 * word + std::countr_zero(bits), 4);
    }
  }
  return static_cast<uint32_t>(bytes);
}

uint8_t DecodeSparse(const std::byte* in, uint32_t bytes, int64_t count, float* values, Simd simd) {
  const uint32_t bitmap = SparseBitmapBytes(count);
  if (bytes < bitmap) return kMalformed;
  const int64_t present = Present(in, count);
  if (present < 0 || bytes != bitmap + 4 * present) return kMalformed;
  const std::byte* from = in + bitmap;
  if (LargestOf(reinterpret_cast<const float*>(from), present, simd) >= kInfinityBits) {
    return kNonFinite;
  }
  std::memset(values, 0, 4 * count);
  for (int64_t word = 0; 32 * word < count; ++word) {
    for (uint64_t bits = BitmapWord(in, word); bits != 0; bits &= bits - 1, from += 4) {
      std::memcpy(values + 32 * word + std::countr_zero(bits), from, 4);
    }
  }
  return 0;
}

uint8_t DecodeInt8(const std::byte* in, int64_t count, float* values, Simd simd) {
  float scale;
  std::memcpy(&scale, in, sizeof(scale));
  if (!Int8ScaleIsSafe(scale)) return kNonFinite;
  const std::byte* bytes = in + kInt8ScaleBytes;
  Wide(simd) ? UnpackInt8Avx2(scale, bytes, count, values)
             : UnpackInt8Sse(scale, bytes, count, values);
  return 0;
}

uint8_t DecodeBfloat16(const std::byte* in, int64_t count, float* values, Simd simd) {
  const int32_t largest =
      Wide(simd) ? UnpackBfloat16Avx2(in, count, values) : UnpackBfloat16Sse(in, count, values);
  return largest >= kInfinityBits ? kNonFinite : 0;
}

}  // namespace

Encoded EncodePayload(Codec codec, const float* d, int64_t count, float scale, std::byte* out,
                      uint32_t room, Simd simd) {
  CHECK_GE(room, LeastPayloadBytes(codec, count));
  if (codec == Codec::kSparse) {
    const uint32_t bytes = EncodeSparse(d, count, out, room, simd);
    if (bytes != 0) return {codec, bytes};
    codec = Codec::kFloat32;
    CHECK_GE(room, LeastPayloadBytes(codec, count));
  }
  const uint32_t bytes = LeastPayloadBytes(codec, count);
  if (codec == Codec::kBfloat16) {
    Wide(simd) ? PackBfloat16Avx2(d, count, out) : PackBfloat16Sse(d, count, out);
  } else if (codec == Codec::kInt8) {
    std::memcpy(out, &scale, sizeof(scale));
    std::byte* to = out + kInt8ScaleBytes;
    Wide(simd) ? PackInt8Avx2(scale, d, count, to) : PackInt8Sse(scale, d, count, to);
  } else {
    std::memcpy(out, d, bytes);
  }
  return {codec, bytes};
}

Decoded DecodePayload(Codec codec, const std::byte* in, uint32_t bytes, int64_t count,
                      float* scratch, Simd simd) {
  if (codec != Codec::kSparse && bytes != LeastPayloadBytes(codec, count)) {
    return {kMalformed, nullptr};
  }
  switch (codec) {
    case Codec::kFloat32: {
      const float* values = reinterpret_cast<const float*>(in);
      const bool finite = LargestOf(values, count, simd) < kInfinityBits;
      return {static_cast<uint8_t>(finite ? 0 : kNonFinite), values};
    }
    case Codec::kBfloat16:
      return {DecodeBfloat16(in, count, scratch, simd), scratch};
    case Codec::kInt8:
      return {DecodeInt8(in, count, scratch, simd), scratch};
    case Codec::kSparse:
      return {DecodeSparse(in, bytes, count, scratch, simd), scratch};
  }
  return {kMalformed, nullptr};  // a codec of a later version
}

uint8_t CheckPacked(Codec codec, const std::byte* in, uint32_t bytes, int64_t count) {
  if (bytes != LeastPayloadBytes(codec, count)) return kMalformed;
  if (codec == Codec::kBfloat16) {
    return LargestBfloat16Avx2(in, count) >= kInfinityBits ? kNonFinite : 0;
  }
  float scale;
  std::memcpy(&scale, in, sizeof(scale));
  return Int8ScaleIsSafe(scale) ? 0 : kNonFinite;
}

}  // namespace millrace
