#include "model/arrays/element_type.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace millrace::inline model {
namespace {

struct TypeInfo {
  const char* name;
  size_t bytes;
};

// Indexed by ElementType.
constexpr TypeInfo kTypes[] = {{"bool", 1},   {"uint8", 1},   {"int8", 1},     {"uint16", 2},
                               {"int16", 2},  {"uint32", 4},  {"int32", 4},    {"uint64", 8},
                               {"int64", 8},  {"float16", 2}, {"bfloat16", 2}, {"float32", 4},
                               {"float64", 8}};

float FromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const int exponent = half >> 10 & 31;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -24)
                              : std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

uint16_t ToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  // 65520 lies between the largest number, 65504, and the next that there would be.
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude < 0x1p-14f) {
    // Multiples of 2^-24. The largest rounds to the smallest number with a full mantissa.
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  }
  const uint32_t rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded >> 13) - (112 << 10));
}

float FromBfloat(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

uint16_t ToBfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename T, typename Convert>
std::vector<float> Converted(std::string_view bytes, Convert convert) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = convert(value);
  }
  return values;
}

template <typename T>
std::vector<float> Cast(std::string_view bytes) {
  return Converted<T>(bytes, [](T value) { return static_cast<float>(value); });
}

}  // namespace

const char* NameOf(ElementType type) { return kTypes[static_cast<int>(type)].name; }
size_t BytesOf(ElementType type) { return kTypes[static_cast<int>(type)].bytes; }

std::vector<float> FloatsOf(ElementType type, std::string_view bytes) {
  switch (type) {
    case ElementType::kBool:
      return Converted<uint8_t>(bytes, [](uint8_t value) { return value != 0 ? 1.0f : 0.0f; });
    case ElementType::kUint8:
      return Cast<uint8_t>(bytes);
    case ElementType::kInt8:
      return Cast<int8_t>(bytes);
    case ElementType::kUint16:
      return Cast<uint16_t>(bytes);
    case ElementType::kInt16:
      return Cast<int16_t>(bytes);
    case ElementType::kUint32:
      return Cast<uint32_t>(bytes);
    case ElementType::kInt32:
      return Cast<int32_t>(bytes);
    case ElementType::kUint64:
      return Cast<uint64_t>(bytes);
    case ElementType::kInt64:
      return Cast<int64_t>(bytes);
    case ElementType::kFloat16:
      return Converted<uint16_t>(bytes, FromHalf);
    case ElementType::kBfloat16:
      return Converted<uint16_t>(bytes, FromBfloat);
    case ElementType::kFloat32:
      return Cast<float>(bytes);
    case ElementType::kFloat64:
      return Cast<double>(bytes);
  }
  throw Error("unknown type of numbers");
}

std::string BytesOfFloats(ElementType type, const std::vector<float>& values) {
  std::string bytes(values.size() * BytesOf(type), '\0');
  if (type == ElementType::kFloat32) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  if (type != ElementType::kFloat16 && type != ElementType::kBfloat16) {
    throw Error("type ", NameOf(type), ": expected float32, float16 or bfloat16");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t value = type == ElementType::kFloat16 ? ToHalf(values[i]) : ToBfloat(values[i]);
    std::memcpy(bytes.data() + 2 * i, &value, 2);
  }
  return bytes;
}

}  // namespace millrace::inline model
