#include "exchange/kernels/payload_magnitude.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "exchange/kernels/codec.h"

namespace millrace::inline exchange {
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
