#include "model/arrays/array_file.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "model/arrays/zip.h"

namespace millrace::inline model {
namespace {

constexpr size_t kMaxAxes = 32;
constexpr int64_t kMaxValues = int64_t{1} << 40;

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
    if (OnnxParser() != nullptr) return OnnxParser()(bytes, path);
    throw Error(path, ": ONNX is not in this build: install libonnx-dev and build again");
  }
  if (ZipReader::IsZip(bytes)) {
    return HasPickle(bytes, path) ? ParseTorch(bytes, path) : ParseNpz(bytes, path);
  }
  // After 8 bytes of a length below 2^32, a JSON object.
  if (bytes.size() >= 9 && bytes.substr(4, 4) == std::string(4, '\0') && bytes[8] == '{') {
    return ParseSafetensors(bytes, path);
  }
  // A pickle of protocol 2 or higher: torch.save before PyTorch 1.6, or its old format.
  if (bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5) {
    throw Error(path, ": a pickle, expected a file that torch.save of PyTorch 1.6 or later wrote");
  }
  throw Error(path, ": expected a file in the format safetensors, npz, of torch.save, or ONNX");
}

}  // namespace

RegisterOnnxArrays::RegisterOnnxArrays(ArrayParser parse) { OnnxParser() = parse; }

int64_t CountOf(const ArrayShape& shape, const std::string& what) {
  if (shape.size() > kMaxAxes) {
    throw Error(what, ": ", shape.size(), " axes, expected at most ", kMaxAxes);
  }
  int64_t count = 1;
  for (const int64_t length : shape) {
    if (length < 0) throw Error(what, ": an axis of length ", length, ", expected 0 or more");
    if (length > 0 && count > kMaxValues / length) {
      throw Error(what, ": more than ", kMaxValues, " values");
    }
    count *= length;
  }
  return count;
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
