#include "exchange/kernels/host_payload.h"

#include <glog/logging.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_loops.h"

namespace millrace::inline exchange {
namespace {

// Payload of `count` elements, all present.
template <typename Target>
uint8_t CheckFloats(Target target, const std::byte* in, int64_t count) {
  return AllFinite(target, Float32Payload(in), count) ? 0 : kNonFinite;
}

template <typename Target>
uint8_t CheckSparse(Target target, const std::byte* in, uint32_t bytes, int64_t count) {
  const uint32_t bitmap = SparseBitmapBytes(count);
  if (bytes < bitmap) return kMalformed;
  const int64_t present = CountPresent(target, SparsePayload(in, bytes, count), count);
  if (present < 0 || bytes != bitmap + 4 * present) return kMalformed;
  return CheckFloats(target, in + bitmap, present);
}

uint8_t CheckInt4(const std::byte* in, int64_t count) {
  for (int64_t block = 0; block < Int4Scales(count); ++block) {
    uint16_t half;
    std::memcpy(&half, in + 2 * block, 2);
    if (!Int4ScaleIsSafe(Bfloat16Value(half))) return kNonFinite;
  }
  return 0;
}

// Writes a block with its scale.
void WriteInt4(const float* block, int64_t begin, int64_t count, float scale, std::byte* out) {
  const uint16_t half = Bfloat16Half(scale);
  std::memcpy(out + begin / kInt4Block * 2, &half, 2);
  WriteInt4Block(block, std::min(kInt4Block, count - begin), scale,
                 out + 2 * Int4Scales(count) + begin / 2);
}

template <typename Target>
uint8_t Check(Target target, Codec codec, const std::byte* in, int64_t count) {
  switch (codec) {
    case Codec::kFloat32:
      return CheckFloats(target, in, count);
    case Codec::kBfloat16:
      return AllFinite(target, Bfloat16Payload(in), count) ? 0 : kNonFinite;
    case Codec::kInt8:
      return Int8ScaleIsSafe(Int8Payload(in).scale) ? 0 : kNonFinite;
    case Codec::kInt4:
      return CheckInt4(in, count);
    case Codec::kSparse:
      break;
  }
  return kMalformed;  // codec of a newer version
}

// Writes the diff and returns the payload's size; for kSparse the size that it needs, which may
// exceed `room`.
template <typename Target>
int64_t Encode(Target target, Codec codec, const float* d, int64_t count, float scale,
               std::byte* out, uint32_t room) {
  if (codec == Codec::kSparse) {
    SparseEncoder encoder(out, std::min<int64_t>(room, 4 * count), count, 0);
    EncodeDiff(target, d, count, &encoder);
    encoder.Finish(d, count);
    return encoder.at;
  }
  if (codec == Codec::kBfloat16) {
    Bfloat16Encoder encoder{out, {}};
    EncodeDiff(target, d, count, &encoder);
  } else if (codec == Codec::kInt8) {
    std::memcpy(out, &scale, sizeof(scale));
    Int8Encoder encoder{out + kInt8ScaleBytes, {scale}};
    EncodeDiff(target, d, count, &encoder);
  } else if (codec == Codec::kInt4) {
    for (int64_t i = 0; i < count; i += kInt4Block) {
      WriteInt4(d + i, i, count, Int4ScaleOf(d + i, std::min(kInt4Block, count - i)), out);
    }
  } else {
    std::memcpy(out, d, 4 * count);
  }
  return MinPayloadBytes(codec, count);
}

int32_t Overflow(Codec codec) {
  if (codec == Codec::kBfloat16) return Bfloat16Codec::overflow();
  if (codec == Codec::kInt4) return Int4Codec::overflow();
  return codec == Codec::kInt8 ? Int8Codec::overflow() : Float32Codec::overflow();
}

// Neighbours that are judged together: the smallest parameter array that matters, and those of one
// cache line, at which parameters begin.
constexpr int64_t kGroup = 16;
// Weights below this many levels of int8 lose a quarter of their value or more.
constexpr float kMinLevels = 2;

// Small weights of a group up to this number may be chance, where most weights are 0.
constexpr int kMaxLostByChance = 1;

// Whether more than half of the weights of a group that are not 0 are below `small`, and more than
// kMaxLostByChance.
bool IsLost(const float* group, int64_t size, float small) {
  const int32_t limit = Magnitude(small);
  int present = 0, lost = 0;
  for (int64_t i = 0; i < size; ++i) {
    const int32_t magnitude = Magnitude(group[i]);
    present += magnitude != 0;
    lost += magnitude != 0 && magnitude < limit;
  }
  return lost > kMaxLostByChance && 2 * lost > present;
}

// Whether int8 loses some group of neighbours. Of weights of one distribution it practically never
// does: of Gaussian ones with a maximum of 4 standard deviations one in twenty is below kMinLevels.
// A group of the statistics or biases of a layer beside one with larger weights is lost, and so are
// all weights beside a single large one.
bool IsMixed(const float* weights, int64_t count, float scale) {
  for (int64_t begin = 0; begin < count; begin += kGroup) {
    const int64_t end = std::min(begin + kGroup, count);
    // A short last group is judged with weights before it.
    const float* const group = weights + std::max<int64_t>(end - kGroup, 0);
    if (IsLost(group, std::min(kGroup, count), kMinLevels * scale)) return true;
  }
  return false;
}

// Writes weights below overflow as kInt4. Returns false if most of a block would become 0: of
// Gaussian weights one in ten does.
bool EncodeInt4(const float* weights, int64_t count, std::byte* out) {
  for (int64_t i = 0; i < count; i += kInt4Block) {
    const int64_t size = std::min(kInt4Block, count - i);
    const float scale = Int4Scale(FromBits<float>(MaxMagnitude(weights + i, size)));
    if (IsLost(weights + i, size, scale / 2)) return false;
    WriteInt4(weights + i, i, count, scale, out);
  }
  return true;
}

}  // namespace

Encoded EncodePayload(Codec codec, const float* d, int64_t count, float scale, std::byte* out,
                      uint32_t room, Simd simd) {
  CHECK_GE(room, MinPayloadBytes(codec, count));
  const auto encode = [&](auto target) {
    return Encode(target, codec, d, count, scale, out, room);
  };
  const int64_t bytes = VisitTarget(simd, encode);
  if (codec == Codec::kSparse && bytes >= 4 * count) {
    return EncodePayload(Codec::kFloat32, d, count, scale, out, room, simd);
  }
  CHECK_LE(bytes, int64_t{room});
  return {codec, static_cast<uint32_t>(bytes)};
}

uint8_t CheckPayload(Codec codec, const std::byte* in, uint32_t bytes, int64_t count, Simd simd) {
  return VisitTarget(simd, [&](auto target) {
    if (codec == Codec::kSparse) return CheckSparse(target, in, bytes, count);
    if (bytes != MinPayloadBytes(codec, count)) return uint8_t{kMalformed};
    return Check(target, codec, in, count);
  });
}

Encoded EncodeWeights(Codec codec, const float* weights, int64_t count, std::byte* out, Simd simd) {
  CHECK(codec != Codec::kSparse);
  const int32_t largest = MaxMagnitude(weights, count);
  if (codec == Codec::kInt4 && largest < Overflow(codec)) {
    if (EncodeInt4(weights, count, out)) return {codec, MinPayloadBytes(codec, count)};
    codec = Codec::kBfloat16;
  }
  const float scale = Int8Scale(FromBits<float>(largest));
  if (codec == Codec::kInt8 && IsMixed(weights, count, scale)) codec = Codec::kBfloat16;
  if (largest >= Overflow(codec)) codec = Codec::kFloat32;
  // The encoders round.
  return EncodePayload(codec, weights, count, scale, out, MinPayloadBytes(codec, count), simd);
}

void DecodeWeights(Codec codec, const std::byte* in, int64_t count, float* weights, Simd simd) {
  CHECK(codec != Codec::kSparse);
  if (codec == Codec::kInt4) {
    for (int64_t i = 0; i < count; ++i) weights[i] = Int4Value(in, count, i);
    return;
  }
  VisitTarget(simd, [&](auto target) {
    if (codec == Codec::kBfloat16) {
      DecodeAll(target, Bfloat16Payload(in), count, weights);
    } else if (codec == Codec::kInt8) {
      DecodeAll(target, Int8Payload(in), count, weights);
    } else {
      std::memcpy(weights, in, 4 * count);
    }
  });
}

void DecodeSparse(const std::byte* in, uint32_t bytes, int64_t count, float* values) {
  const SparsePayload payload(in, bytes, count);
  const float* next = payload.begin;
  std::fill_n(values, count, 0.0f);
  for (int64_t i = 0; i < count; i += 32) {
    for (uint32_t bits = payload.BitsAt(i); bits != 0; bits &= bits - 1) {
      values[i + std::countr_zero(bits)] = *next++;
    }
  }
}

namespace {

constexpr int64_t kSamples = 16;

template <typename T>
T At(const std::byte* from, int64_t index) {
  T value;
  std::memcpy(&value, from + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// Mean of |value(i)| over at most kSamples evenly spaced indices below `count`.
template <typename Value>
float MeanOf(int64_t count, Value value) {
  const int64_t samples = std::min(count, kSamples);
  if (samples <= 0) return 0;
  float sum = 0;
  for (int64_t i = 0; i < samples; ++i) sum += std::fabs(value(i * count / samples));
  return sum / static_cast<float>(samples);
}

}  // namespace

float SampledMagnitude(Codec codec, std::span<const std::byte> payload, int64_t floats) {
  const std::byte* const in = payload.data();
  switch (codec) {
    case Codec::kFloat32:
      return MeanOf(floats, [in](int64_t i) { return At<float>(in, i); });
    case Codec::kBfloat16:
      return MeanOf(floats, [in](int64_t i) { return Bfloat16Value(At<uint16_t>(in, i)); });
    case Codec::kInt8:
      return MeanOf(floats, [in](int64_t i) {
        return At<float>(in, 0) * static_cast<float>(At<int8_t>(in + kInt8ScaleBytes, i));
      });
    case Codec::kInt4:
      return MeanOf(floats, [=](int64_t i) { return Int4Value(in, floats, i); });
    case Codec::kSparse: {
      const uint32_t bitmap = SparseBitmapBytes(floats);
      const int64_t present = (static_cast<int64_t>(payload.size()) - bitmap) / 4;
      const float mean =
          MeanOf(std::min(present, kSamples), [=](int64_t i) { return At<float>(in + bitmap, i); });
      return mean * static_cast<float>(present) / static_cast<float>(std::max<int64_t>(floats, 1));
    }
  }
  return 0;
}

}  // namespace millrace::inline exchange
