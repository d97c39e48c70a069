// What a diff becomes when it travels: the payload of each codec, and the
// functions of one element that every executor shares.
//
// Payloads of n elements; little-endian, integers and IEEE 754 floats packed
// without gaps; no other size is accepted:
//   kFloat32   float32[n]                                   4 n bytes
//   kBfloat16  uint16[n]: the upper halves of float32       2 n bytes
//   kInt8      float32 scale, int8[n]                       4 + n bytes
//              value i = scale * int8 i, one float32 product. 128 |scale| is finite.
//   kSparse    bitmap, float32[k]                           4 ceil(n / 32) + 4 k bytes
//              bitmap: uint8[4 ceil(n / 32)]; element i is present when bit i % 8
//              (from the lowest) of byte i / 8 is set; k are set, none from bit n
//              on. Then the present elements in order; the others are 0.
// Every value is finite: a payload with another one is refused as a whole.
// A diff that would take 4 n bytes or more as kSparse travels as kFloat32,
// with the elements below the threshold 0.
//
// The functions take a float, or a vector of floats (T) in host loops. Products
// must be rounded before they are added to: compile with -ffp-contract=off, and
// with -fmad=false for a GPU; results would differ by machine otherwise.
#ifndef MILLRACE_EXCHANGE_KERNELS_CODEC_H_
#define MILLRACE_EXCHANGE_KERNELS_CODEC_H_

#include <cstdint>

#include "base/host_device.h"
#include "exchange/kernels/chunk_op.h"

namespace millrace {

inline constexpr int32_t kMagnitudeBits = 0x7fffffff;  // of a float32: all but the sign
inline constexpr int32_t kInfinityBits = 0x7f800000;
// The least magnitude that rounds to a bfloat16 infinity.
inline constexpr int32_t kBfloat16OverflowBits = 0x7f7f8000;
// The least magnitude whose scale is not safe (Int8ScaleIsSafe()): 127 * 2^121.
inline constexpr int32_t kInt8OverflowBits = 0x7f7e0000;
inline constexpr float kInt8Levels = 127;
inline constexpr uint32_t kInt8ScaleBytes = 4;

// 32-bit integers, as many as T has floats.
template <typename T>
struct BitsOfFloats {
  using Type = decltype(T{} < T{});
};
template <>
struct BitsOfFloats<float> {
  using Type = int32_t;
};
template <typename T>
using BitsOf = typename BitsOfFloats<T>::Type;

template <typename T>
MILLRACE_HOST_DEVICE BitsOf<T> ToBits(T x) {
  return __builtin_bit_cast(BitsOf<T>, x);
}

template <typename T>
MILLRACE_HOST_DEVICE T FromBits(BitsOf<T> bits) {
  return __builtin_bit_cast(T, bits);
}

// |x| as an integer: ordered as magnitudes are, with kInfinityBits and above for
// what is not finite.
template <typename T>
MILLRACE_HOST_DEVICE BitsOf<T> Magnitude(T x) {
  return ToBits(x) & kMagnitudeBits;
}

// Each of these gives d, the value that travels, for a finite u. A u of at least
// `overflow` by magnitude has no finite d and does not travel.
struct Float32Codec {
  static MILLRACE_HOST_DEVICE constexpr int32_t overflow() { return kInfinityBits; }
  template <typename T>
  MILLRACE_HOST_DEVICE T Round(T u) const {
    return u;
  }
};

struct Bfloat16Codec {
  static MILLRACE_HOST_DEVICE constexpr int32_t overflow() { return kBfloat16OverflowBits; }
  // To the nearest, ties to even.
  template <typename T>
  MILLRACE_HOST_DEVICE T Round(T u) const {
    const BitsOf<T> bits = ToBits(u);
    return FromBits<T>((bits + 0x7fff + ((bits >> 16) & 1)) & static_cast<int32_t>(0xffff0000));
  }
};

// d = scale * q with q = u / scale rounded to the nearest integer, ties to even,
// and clamped to +-127. Applied to d it gives d and the same q again.
struct Int8Codec {
  float scale = 0;  // >= 0; Int8Scale()
  static MILLRACE_HOST_DEVICE constexpr int32_t overflow() { return kInt8OverflowBits; }
  // Infinite for a scale of 0, by which nothing travels.
  MILLRACE_HOST_DEVICE float divisor() const { return scale > 0 ? scale : __builtin_inff(); }
  // q as a float. Adding 1.5 * 2^23 leaves no room for a fraction, so that the
  // addition rounds.
  template <typename T>
  MILLRACE_HOST_DEVICE T Level(T u) const {
    constexpr float kRounds = 12582912;
    T q = u / divisor();
    q = q > kInt8Levels ? T{} + kInt8Levels : q;
    q = q < -kInt8Levels ? T{} - kInt8Levels : q;
    return (q + kRounds) - kRounds;
  }
  template <typename T>
  MILLRACE_HOST_DEVICE T Round(T u) const {
    return scale * Level(u);
  }
};

struct SparseCodec {
  float threshold = 0;
  static MILLRACE_HOST_DEVICE constexpr int32_t overflow() { return kInfinityBits; }
  template <typename T>
  MILLRACE_HOST_DEVICE T Round(T u) const {
    return FromBits<T>(Magnitude(u)) >= threshold ? u : T{};
  }
};

// The scale for diffs of at most `largest` by magnitude, which is below
// Int8Codec::overflow(). 0 when that is so small that the quotient underflows: nothing travels
// until it grows.
MILLRACE_HOST_DEVICE float Int8Scale(float largest) { return largest / kInt8Levels; }

// Whether every byte times `scale` is finite.
MILLRACE_HOST_DEVICE bool Int8ScaleIsSafe(float scale) {
  return Magnitude(128 * scale) < kInfinityBits;
}

MILLRACE_HOST_DEVICE float Bfloat16Value(uint16_t half) {
  return FromBits<float>(static_cast<int32_t>(uint32_t{half} << 16));
}

// Of a d that Bfloat16Codec has rounded.
MILLRACE_HOST_DEVICE uint16_t Bfloat16Half(float d) {
  return static_cast<uint16_t>(static_cast<uint32_t>(ToBits(d)) >> 16);
}

MILLRACE_HOST_DEVICE constexpr uint32_t SparseBitmapBytes(int64_t floats) {
  return static_cast<uint32_t>((floats + 31) / 32 * 4);
}

// The bytes of a payload; kSparse with all elements absent.
MILLRACE_HOST_DEVICE constexpr uint32_t LeastPayloadBytes(Codec codec, int64_t floats) {
  switch (codec) {
    case Codec::kFloat32:
      return static_cast<uint32_t>(4 * floats);
    case Codec::kBfloat16:
      return static_cast<uint32_t>(2 * floats);
    case Codec::kInt8:
      return kInt8ScaleBytes + static_cast<uint32_t>(floats);
    case Codec::kSparse:
      return SparseBitmapBytes(floats);
  }
  return 0;
}

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_CODEC_H_
