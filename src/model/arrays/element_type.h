// Types of numbers in files of arrays.
#ifndef MILLRACE_MODEL_ARRAYS_ELEMENT_TYPE_H_
#define MILLRACE_MODEL_ARRAYS_ELEMENT_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::inline model {

enum class ElementType {
  kBool,
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
};

// "float32": as NumPy names it; and "bfloat16".
const char* NameOf(ElementType type);
size_t BytesOf(ElementType type);

// The values of `bytes`, whose size is a multiple of BytesOf(type), as float32: rounded to nearest
// where they are of more bits.
std::vector<float> FloatsOf(ElementType type, std::string_view bytes);
// `values` in float32, float16 or bfloat16, rounded to nearest, ties to even. Values that float16
// is too small for become infinite.
std::string BytesOfFloats(ElementType type, const std::vector<float>& values);

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_ARRAYS_ELEMENT_TYPE_H_
