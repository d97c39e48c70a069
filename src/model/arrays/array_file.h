// Files of named arrays, as other programs keep weights: safetensors, NumPy's .npz, PyTorch's
// state dicts, and the initializers of ONNX models.
#ifndef MILLRACE_MODEL_ARRAYS_ARRAY_FILE_H_
#define MILLRACE_MODEL_ARRAYS_ARRAY_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/arrays/element_type.h"

namespace millrace::inline model {

using ArrayShape = std::vector<int64_t>;

struct NamedArray {
  std::string name;
  ArrayShape shape;  // row-major; a number without axes has the empty shape
  ElementType type = ElementType::kFloat32;
  std::string bytes;  // as many values as the shape has, little-endian
};

// The number of values of `shape`. Throws Error(`what`, ...) if there are more than 32 axes, a
// negative one, or more than 2^40 values.
int64_t CountOf(const ArrayShape& shape, const std::string& what);

// The bytes of such an array. Throws Error(`what`, ...) as CountOf, and unless `given` are as many.
uint64_t ExpectBytes(uint64_t given, const ArrayShape& shape, ElementType type,
                     const std::string& what);

// The elements of an array of `shape` in row-major order, each of `width` bytes. Element i, j, ...
// is that of number first + i stride[0] + j stride[1] + ... in `bytes`, which has all of them. The
// array has `count` elements.
std::string RowMajor(std::string_view bytes, size_t width, int64_t first, const ArrayShape& shape,
                     const ArrayShape& stride, int64_t count);

// The format of a file that does not end in .onnx, by its first bytes, of which kFormatBytes are
// enough.
enum class ArrayFormat {
  kNone,         // none of these
  kSafetensors,  // after 8 bytes of a length below 2^32, a JSON object
  kZip,          // .npz, or a file of torch.save
  kPickle,       // torch.save before PyTorch 1.6, or its old format; not read
};
inline constexpr size_t kFormatBytes = 9;
ArrayFormat FormatOf(const std::string& bytes);

// All arrays of a file, in the order of the file. The format is that of the contents; a file is an
// ONNX model if its name ends in .onnx. Throws Error with one line that names the file, and the
// array, if the file is damaged, has arrays of types that are not known, two arrays of one name, or
// is of another format.
std::vector<NamedArray> ReadArrays(const std::string& path);

// Writes the file atomically. `format`: "safetensors" or "npz". Throws Error naming the file.
void WriteArrays(const std::string& format, const std::string& path,
                 const std::vector<NamedArray>& arrays);

// The arrays of a file's bytes; `path` is for messages.
std::vector<NamedArray> ParseSafetensors(const std::string& bytes, const std::string& path);
std::vector<NamedArray> ParseNpz(const std::string& bytes, const std::string& path);
std::vector<NamedArray> ParseTorch(const std::string& bytes, const std::string& path);
std::string SafetensorsOf(const std::vector<NamedArray>& arrays, const std::string& path);
std::string NpzOf(const std::vector<NamedArray>& arrays, const std::string& path);

// The reader of ONNX models, of module onnx.
using ArrayParser = std::vector<NamedArray> (*)(const std::string& bytes, const std::string& path);
struct RegisterOnnxArrays {
  explicit RegisterOnnxArrays(ArrayParser parse);
};

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_ARRAYS_ARRAY_FILE_H_
