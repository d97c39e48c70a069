#include "exchange/kernels/host_payload.h"

#include <glog/logging.h>

#include <bit>
#include <cstring>

#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_encode.h"
#include "exchange/kernels/host_finite.h"

namespace millrace {
namespace {

uint64_t BitmapWord(const std::byte* bitmap, int64_t word) {
  uint32_t bits;
  std::memcpy(&bits, bitmap + 4 * word, sizeof(bits));
  return bits;
}

// True for AVX2 and wider: every processor with AVX-512 has AVX2.
bool Wide(Simd simd) { return simd != Simd::kBaseline; }

bool AllFinite(const std::byte* floats, int64_t count, Simd simd) {
  if (simd == Simd::kAvx512) return AllFiniteAvx512(floats, count);
  return Wide(simd) ? AllFiniteAvx2(floats, count) : AllFiniteSse(floats, count);
}

uint8_t CheckSparse(const std::byte* in, uint32_t bytes, int64_t count, Simd simd) {
  const uint32_t bitmap = SparseBitmapBytes(count);
  if (bytes < bitmap) return kMalformed;
  const int64_t present = Wide(simd) ? PresentAvx2(in, count) : PresentSse(in, count);
  if (present < 0 || bytes != bitmap + 4 * present) return kMalformed;
  return AllFinite(in + bitmap, present, simd) ? 0 : kNonFinite;
}

uint8_t CheckInt8(const std::byte* in) {
  float scale;
  std::memcpy(&scale, in, sizeof(scale));
  return Int8ScaleIsSafe(scale) ? 0 : kNonFinite;
}

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

void DecodeSparse(const std::byte* in, int64_t count, float* values) {
  const std::byte* from = in + SparseBitmapBytes(count);
  std::memset(values, 0, 4 * count);
  for (int64_t word = 0; 32 * word < count; ++word) {
    for (uint64_t bits = BitmapWord(in, word); bits != 0; bits &= bits - 1, from += 4) {
      std::memcpy(values + 32 * word + std::countr_zero(bits), from, 4);
    }
  }
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

uint8_t CheckPayload(Codec codec, const std::byte* in, uint32_t bytes, int64_t count, Simd simd) {
  if (codec == Codec::kSparse) return CheckSparse(in, bytes, count, simd);
  if (bytes != LeastPayloadBytes(codec, count)) return kMalformed;
  switch (codec) {
    case Codec::kFloat32:
      return AllFinite(in, count, simd) ? 0 : kNonFinite;
    case Codec::kBfloat16: {
      const bool finite =
          Wide(simd) ? AllFiniteBfloat16Avx2(in, count) : AllFiniteBfloat16Sse(in, count);
      return finite ? 0 : kNonFinite;
    }
    case Codec::kInt8:
      return CheckInt8(in);
    case Codec::kSparse:
      break;
  }
  return kMalformed;  // codec of a newer version
}

const float* DecodePayload(Codec codec, const std::byte* in, int64_t count, float* scratch) {
  switch (codec) {
    case Codec::kFloat32:
      return reinterpret_cast<const float*>(in);
    case Codec::kBfloat16:
      UnpackBfloat16(in, count, scratch);
      break;
    case Codec::kInt8: {
      float scale;
      std::memcpy(&scale, in, sizeof(scale));
      UnpackInt8(scale, in + kInt8ScaleBytes, count, scratch);
      break;
    }
    case Codec::kSparse:
      DecodeSparse(in, count, scratch);
      break;
  }
  return scratch;
}

}  // namespace millrace
