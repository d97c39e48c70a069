// Diff encoding: the payload format of each codec, and the element functions that all executors
// share.
//
// Payloads of n elements. Values are little-endian, integers or IEEE 754 floats, packed without
// gaps. Any other size is rejected.
//   kFloat32   float32[n]                                   4 n bytes
//   kBfloat16  uint16[n]: upper halves of float32           2 n bytes
//   kInt8      float32 scale, int8[n]                       4 + n bytes
//              value i = scale * int8 i, one float32 product. 128 |scale| is finite.
//   kInt4      uint16[ceil(n / 16)], uint8[ceil(n / 2)]     2 ceil(n / 16) + ceil(n / 2) bytes
//              Scale k, the upper half of a float32, is that of the elements from 16 k on.
//              value i = scale * q, q the signed integer of four bits in the lower half of byte
//              i / 2 for an even i, in its upper half otherwise. 8 |scale| is finite.
//   kSparse    bitmap, float32[k]                           4 ceil(n / 32) + 4 k bytes
//              bitmap: uint8[4 ceil(n / 32)]. Element i is present if bit i % 8 (from
//              the lowest) of byte i / 8 is set. k bits are set; bits from n on are 0.
//              The k present elements follow in order; absent elements are 0. Which elements
//              are present is the sender's choice (SparseChoice).
// Every value is finite: a payload that contains another one is rejected as a whole. A diff that
// would take 4 n bytes or more as kSparse is sent as kFloat32, with the elements below the
// threshold set to 0.
//
// The functions take a float, or a vector of floats (T) in host loops. A product must be rounded
// before it is added to, because contraction would make results differ between machines. Compile
// with -ffp-contract=off, and with -fmad=false for a GPU.
#ifndef MILLRACE_EXCHANGE_KERNELS_CODEC_H_
#define MILLRACE_EXCHANGE_KERNELS_CODEC_H_

#include <cstdint>

#include "base/host_device.h"
#include "exchange/kernels/chunk_op.h"

namespace millrace::inline exchange {

inline constexpr int32_t kMagnitudeBits = 0x7fffffff;  // all bits of a float32 except the sign
inline constexpr int32_t kInfinityBits = 0x7f800000;
// Smallest magnitude that rounds to infinity in bfloat16.
inline constexpr int32_t kBfloat16OverflowBits = 0x7f7f8000;
// Smallest magnitude for which Int8ScaleIsSafe(Int8Scale()) is false: 127 * 2^121.
inline constexpr int32_t kInt8OverflowBits = 0x7f7e0000;
inline constexpr float kInt8Levels = 127;
inline constexpr uint32_t kInt8ScaleBytes = 4;
inline constexpr float kInt4Levels = 7;
inline constexpr int64_t kInt4Block = 16;  // elements with one scale
// Smallest magnitude that kInt4 does not hold: 2^126. 8 times its scale is finite.
inline constexpr int32_t kInt4OverflowBits = 0x7e800000;

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

// |x| as an integer, in the order of magnitudes. For a value that is not finite it is at least
// kInfinityBits.
template <typename T>
MILLRACE_HOST_DEVICE BitsOf<T> Magnitude(T x) {
  return ToBits(x) & kMagnitudeBits;
}

// The largest magnitude of `count` values; 0 if there is none.
MILLRACE_HOST_DEVICE int32_t MaxMagnitude(const float* values, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t magnitude = Magnitude(values[i]);
    if (magnitude > largest) largest = magnitude;
  }
  return largest;
}

// Each codec's Round() maps a finite u to d, the value that is sent. A u with a magnitude of at
// least overflow() has no finite d and is not sent.
struct Float32Codec {
  static MILLRACE_HOST_DEVICE constexpr int32_t overflow() { return kInfinityBits; }
  template <typename T>
  MILLRACE_HOST_DEVICE T Round(T u) const {
    return u;
  }
};

struct Bfloat16Codec {
  static MILLRACE_HOST_DEVICE constexpr int32_t overflow() { return kBfloat16OverflowBits; }
  // Rounds to nearest, ties to even.
  template <typename T>
  MILLRACE_HOST_DEVICE T Round(T u) const {
    const BitsOf<T> bits = ToBits(u);
    return FromBits<T>((bits + 0x7fff + ((bits >> 16) & 1)) & static_cast<int32_t>(0xffff0000));
  }
};

// What values are divided by: infinity for a scale of 0, so that every q is 0.
MILLRACE_HOST_DEVICE float DivisorOf(float scale) { return scale > 0 ? scale : __builtin_inff(); }

// d = scale * q, where q is u / scale rounded to the nearest integer, ties to even, and clamped to
// +-127. Idempotent: applied to d, it yields d and the same q.
struct Int8Codec {
  float scale = 0;  // >= 0; Int8Scale()
  static MILLRACE_HOST_DEVICE constexpr int32_t overflow() { return kInt8OverflowBits; }
  // 1.5 * 2^23: adding it rounds to an integer, because no mantissa bits remain for a fraction.
  static constexpr float kRounds = 12582912;
  // q as a float.
  template <typename T>
  MILLRACE_HOST_DEVICE T Level(T u) const {
    T q = u / DivisorOf(scale);
    q = q > kInt8Levels ? T{} + kInt8Levels : q;
    q = q < -kInt8Levels ? T{} - kInt8Levels : q;
    return (q + kRounds) - kRounds;
  }
  template <typename T>
  MILLRACE_HOST_DEVICE T Round(T u) const {
    return scale * Level(u);
  }
};

// d = scale * q, where q is u / scale rounded as for int8 and clamped to +-7. Each block of
// kInt4Block elements has a scale of its own.
struct Int4Codec {
  float scale = 0;  // >= 0; Int4Scale()
  static MILLRACE_HOST_DEVICE constexpr int32_t overflow() { return kInt4OverflowBits; }
  template <typename T>
  MILLRACE_HOST_DEVICE T Round(T u) const {
    T q = u / DivisorOf(scale);
    q = q > kInt4Levels ? T{} + kInt4Levels : q;
    q = q < -kInt4Levels ? T{} - kInt4Levels : q;
    return scale * ((q + Int8Codec::kRounds) - Int8Codec::kRounds);
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

// Number of scales of a kInt4 payload.
MILLRACE_HOST_DEVICE constexpr int64_t Int4Scales(int64_t floats) {
  return (floats + kInt4Block - 1) / kInt4Block;
}

// Scale for values with a magnitude of at most `largest`, which must be below
// Int8Codec::overflow(). If the quotient underflows, the scale is 0 and nothing is sent until the
// values grow.
MILLRACE_HOST_DEVICE float Int8Scale(float largest) { return largest / kInt8Levels; }

MILLRACE_HOST_DEVICE float Bfloat16Value(uint16_t half) {
  return FromBits<float>(static_cast<int32_t>(uint32_t{half} << 16));
}

// Scale for a block of values with a magnitude of at most `largest`, below Int4Codec::overflow():
// the least bfloat16 of which 7 are as much. 0 below 2^-100, so that products of scales are exact.
MILLRACE_HOST_DEVICE float Int4Scale(float largest) {
  if (!(largest >= 0x1p-100f)) return 0;
  const int32_t bits = ToBits(largest / kInt4Levels);
  return FromBits<float>(static_cast<int32_t>((static_cast<uint32_t>(bits) + 0xffff) & 0xffff0000));
}

// A scale for a block of `count` values that Int4Codec has rounded: one of which all of them are
// multiples. That with which they were rounded may have no multiple of 7 here, because a solver has
// changed the largest value after the scale was found.
MILLRACE_HOST_DEVICE float Int4ScaleOf(const float* d, int64_t count) {
  const float largest = FromBits<float>(MaxMagnitude(d, count));
  for (int level = 7; level > 1; --level) {
    const Int4Codec codec{largest / static_cast<float>(level)};
    bool fits = (ToBits(codec.scale) & 0xffff) == 0;
    for (int64_t i = 0; i < count && fits; ++i) fits = codec.Round(d[i]) == d[i];
    if (fits) return codec.scale;
  }
  return largest;
}

// Writes a block of values that have this scale: q of each, two to a byte.
MILLRACE_HOST_DEVICE void WriteInt4Block(const float* d, int64_t count, float scale,
                                         std::byte* levels) {
  const float divisor = DivisorOf(scale);
  for (int64_t i = 0; i < count; i += 2) {
    const auto level = [=](int64_t at) {
      return at < count ? static_cast<int32_t>(Int4Codec{1}.Round(d[at] / divisor)) & 15 : 0;
    };
    levels[i / 2] = static_cast<std::byte>(level(i) | level(i + 1) << 4);
  }
}

// Element i of a payload of `count` elements.
MILLRACE_HOST_DEVICE float Int4Value(const std::byte* payload, int64_t count, int64_t i) {
  const auto* const scale = reinterpret_cast<const uint8_t*>(payload + i / kInt4Block * 2);
  const auto half = static_cast<uint16_t>(scale[0] | scale[1] << 8);
  const std::byte both = payload[2 * Int4Scales(count) + i / 2];
  const int32_t bits = static_cast<int32_t>(both) >> (i % 2 * 4) & 15;
  return Bfloat16Value(half) * static_cast<float>((bits ^ 8) - 8);
}

// True if `scale` times any value of four bits is finite.
MILLRACE_HOST_DEVICE bool Int4ScaleIsSafe(float scale) {
  return Magnitude(8 * scale) < kInfinityBits;
}

// True if `scale` times any int8 value is finite.
MILLRACE_HOST_DEVICE bool Int8ScaleIsSafe(float scale) {
  return Magnitude(128 * scale) < kInfinityBits;
}

// `d` must have been rounded by Bfloat16Codec.
MILLRACE_HOST_DEVICE uint16_t Bfloat16Half(float d) {
  return static_cast<uint16_t>(static_cast<uint32_t>(ToBits(d)) >> 16);
}

MILLRACE_HOST_DEVICE constexpr uint32_t SparseBitmapBytes(int64_t floats) {
  return static_cast<uint32_t>((floats + 31) / 32 * 4);
}

// Minimum payload size in bytes: exact for the dense codecs; for kSparse, that without present
// elements.
MILLRACE_HOST_DEVICE constexpr uint32_t MinPayloadBytes(Codec codec, int64_t floats) {
  switch (codec) {
    case Codec::kFloat32:
      return static_cast<uint32_t>(4 * floats);
    case Codec::kBfloat16:
      return static_cast<uint32_t>(2 * floats);
    case Codec::kInt8:
      return kInt8ScaleBytes + static_cast<uint32_t>(floats);
    case Codec::kSparse:
      return SparseBitmapBytes(floats);
    case Codec::kInt4:
      return static_cast<uint32_t>(2 * Int4Scales(floats) + (floats + 1) / 2);
  }
  return 0;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_CODEC_H_
