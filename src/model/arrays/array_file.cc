#include "model/arrays/array_file.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files/file.h"
#include "base/module.h"
#include "base/registration.h"
#include "model/arrays/zip.h"

namespace millrace::inline model {
namespace {

constexpr size_t kMaxAxes = 32;
constexpr int64_t kMaxArrayValues = int64_t{1} << 40;

ArrayParser& OnnxParser() {
  static ArrayParser parser = nullptr;
  return parser;
}

bool HasPickle(const std::string& bytes, const std::string& path) {
  const ZipReader zip(bytes, path);
  return std::any_of(zip.names().begin(), zip.names().end(),
                     [](const std::string& name) { return name.ends_with("data.pkl"); });
}

std::vector<NamedArray> Parse(const std::string& bytes, const std::string& path) {
  if (path.ends_with(".onnx")) {
    const std::string reason = LoadModule("onnx");
    if (OnnxParser() != nullptr) return OnnxParser()(bytes, path);
    throw Error(path, ": the reader of ONNX models is in ", reason);
  }
  switch (FormatOf(bytes)) {
    case ArrayFormat::kZip:
      return HasPickle(bytes, path) ? ParseTorch(bytes, path) : ParseNpz(bytes, path);
    case ArrayFormat::kSafetensors:
      return ParseSafetensors(bytes, path);
    case ArrayFormat::kPickle:
      throw Error(path,
                  ": a pickle, expected a file that torch.save of PyTorch 1.6 or later wrote");
    case ArrayFormat::kNone:
      break;
  }
  throw Error(path, ": expected a file in the format safetensors, npz, of torch.save, or ONNX");
}

}  // namespace

RegisterOnnxArrays::RegisterOnnxArrays(ArrayParser parse) {
  if (OnnxParser() != nullptr) ReportSecondRegistration("reader of arrays", "onnx");
  OnnxParser() = parse;
}

int64_t CountOf(const ArrayShape& shape, const std::string& what) {
  if (shape.size() > kMaxAxes) {
    throw Error(what, ": ", shape.size(), " axes, expected at most ", kMaxAxes);
  }
  int64_t count = 1;
  for (const int64_t length : shape) {
    if (length < 0) throw Error(what, ": an axis of length ", length, ", expected 0 or more");
    if (length > 0 && count > kMaxArrayValues / length) {
      throw Error(what, ": more than ", kMaxArrayValues, " values");
    }
    count *= length;
  }
  return count;
}

uint64_t ExpectBytes(uint64_t given, const ArrayShape& shape, ElementType type,
                     const std::string& what) {
  const uint64_t expected = static_cast<uint64_t>(CountOf(shape, what)) * BytesOf(type);
  if (given != expected) throw Error(what, ": ", given, " bytes of data, expected ", expected);
  return expected;
}

std::string RowMajor(std::string_view bytes, size_t width, int64_t first, const ArrayShape& shape,
                     const ArrayShape& stride, int64_t count) {
  std::string ordered(static_cast<size_t>(count) * width, '\0');
  ArrayShape index(shape.size(), 0);
  int64_t from = first;
  for (size_t to = 0; to < ordered.size(); to += width) {
    bytes.copy(&ordered[to], width, static_cast<size_t>(from) * width);
    for (size_t axis = shape.size(); axis-- > 0;) {
      from += stride[axis];
      if (++index[axis] < shape[axis]) break;
      from -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return ordered;
}

ArrayFormat FormatOf(const std::string& bytes) {
  if (ZipReader::IsZip(bytes)) return ArrayFormat::kZip;
  if (bytes.size() >= kFormatBytes && bytes.substr(4, 4) == std::string(4, '\0') &&
      bytes[8] == '{') {
    return ArrayFormat::kSafetensors;
  }
  // A pickle of protocol 2 or higher.
  const bool is_pickle = bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
  return is_pickle ? ArrayFormat::kPickle : ArrayFormat::kNone;
}

std::vector<NamedArray> ReadArrays(const std::string& path) {
  std::vector<NamedArray> arrays = Parse(ReadFile(path), path);
  std::set<std::string> names;
  for (const NamedArray& array : arrays) {
    if (!names.insert(array.name).second) {
      throw Error(path, ": array '", array.name, "' is there twice");
    }
  }
  return arrays;
}

void WriteArrays(const std::string& format, const std::string& path,
                 const std::vector<NamedArray>& arrays) {
  std::string bytes;
  if (format == "safetensors") {
    bytes = SafetensorsOf(arrays, path);
  } else if (format == "npz") {
    bytes = NpzOf(arrays, path);
  } else {
    throw Error("format ", format, ": expected safetensors or npz");
  }
  AtomicFile file(path);
  file.Write(bytes);
  file.Commit();
}

}  // namespace millrace::inline model
