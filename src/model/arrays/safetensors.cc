// The format safetensors: the length of a JSON object in 8 bytes, the object, the data. The object
// has for each array {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, the offsets
// from the first byte behind it.
#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text/json.h"
#include "model/arrays/array_file.h"
#include "model/arrays/byte_reader.h"
#include "model/arrays/text_reader.h"

namespace millrace::inline model {
namespace {

constexpr const char* kMetadata = "__metadata__";
// That of the reference implementation.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kHeaderAlignment = 8;

const std::map<std::string, ElementType>& SafetensorsTypes() {
  static const std::map<std::string, ElementType> types = {
      {"BOOL", ElementType::kBool},     {"U8", ElementType::kUint8},
      {"I8", ElementType::kInt8},       {"U16", ElementType::kUint16},
      {"I16", ElementType::kInt16},     {"U32", ElementType::kUint32},
      {"I32", ElementType::kInt32},     {"U64", ElementType::kUint64},
      {"I64", ElementType::kInt64},     {"F16", ElementType::kFloat16},
      {"BF16", ElementType::kBfloat16}, {"F32", ElementType::kFloat32},
      {"F64", ElementType::kFloat64}};
  return types;
}

struct Entry {
  NamedArray array;
  uint64_t begin = 0, end = 0;
};

Entry ReadEntry(const std::string& name, const std::string& where, TextReader* header) {
  Entry entry;
  entry.array.name = name;
  std::optional<ElementType> type;
  bool has_shape = false, has_offsets = false;
  header->Expect("{");
  do {
    const std::string key = header->Text('"');
    header->Expect(":");
    if (key == "dtype") {
      const std::string text = header->Text('"');
      const auto found = SafetensorsTypes().find(text);
      if (found == SafetensorsTypes().end()) throw Error(where, ": type ", text, " is not known");
      type = found->second;
    } else if (key == "shape") {
      entry.array.shape = header->Wholes("[", "]", false);
      has_shape = true;
    } else if (key == "data_offsets") {
      const std::vector<int64_t> offsets = header->Wholes("[", "]", false);
      if (offsets.size() != 2) throw Error(where, ": data_offsets: expected two numbers");
      entry.begin = static_cast<uint64_t>(offsets[0]);
      entry.end = static_cast<uint64_t>(offsets[1]);
      has_offsets = true;
    } else {
      throw Error(where, ": unknown field '", key, "'");
    }
  } while (header->Accept(","));
  header->Expect("}");
  if (!type || !has_shape || !has_offsets) {
    throw Error(where, ": expected dtype, shape and data_offsets");
  }
  entry.array.type = *type;
  return entry;
}

// Texts that nothing here needs.
void SkipMetadata(TextReader* header) {
  header->Expect("{");
  if (header->Accept("}")) return;
  do {
    header->Text('"');
    header->Expect(":");
    header->Text('"');
  } while (header->Accept(","));
  header->Expect("}");
}

}  // namespace

std::vector<NamedArray> ParseSafetensors(const std::string& bytes, const std::string& path) {
  ByteReader reader(bytes, path);
  const auto header_bytes = reader.Number<uint64_t>();
  if (header_bytes > kMaxHeaderBytes) reader.Fail("a header of more than 100 MB");
  TextReader header(reader.Take(header_bytes), path);
  const std::string_view data = reader.Take(reader.left());
  std::vector<Entry> entries;
  header.Expect("{");
  if (!header.Accept("}")) {
    do {
      const std::string name = header.Text('"');
      header.Expect(":");
      if (name == kMetadata) {
        SkipMetadata(&header);
        continue;
      }
      entries.push_back(ReadEntry(name, StrCat(path, ": array '", name, "'"), &header));
    } while (header.Accept(","));
    header.Expect("}");
  }
  header.ExpectEnd();
  // As the reference implementation asks: the arrays lie one behind another and fill the file.
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::vector<NamedArray> arrays;
  uint64_t at = 0;
  for (Entry& entry : entries) {
    const std::string where = StrCat(path, ": array '", entry.array.name, "'");
    if (entry.begin != at || entry.end < entry.begin || entry.end > data.size()) {
      throw Error(where, ": data_offsets ", entry.begin, " to ", entry.end, ", expected ", at,
                  " to at most ", data.size());
    }
    const uint64_t bytes =
        ExpectBytes(entry.end - entry.begin, entry.array.shape, entry.array.type, where);
    entry.array.bytes = data.substr(entry.begin, bytes);
    at = entry.end;
    arrays.push_back(std::move(entry.array));
  }
  if (at != data.size()) throw Error(path, ": ", data.size() - at, " bytes behind the last array");
  return arrays;
}

std::string SafetensorsOf(const std::vector<NamedArray>& arrays, const std::string& path) {
  std::string header = "{";
  uint64_t at = 0;
  size_t data_bytes = 0;
  for (const NamedArray& array : arrays) {
    if (array.name == kMetadata) throw Error(path, ": an array has the reserved name ", kMetadata);
    std::string type, shape;
    for (const auto& [name, each] : SafetensorsTypes()) {
      if (each == array.type) type = name;
    }
    for (const int64_t length : array.shape) shape += StrCat(shape.empty() ? "" : ",", length);
    header += StrCat(header.size() > 1 ? "," : "", JsonText(array.name), ":{\"dtype\":\"", type,
                     "\",\"shape\":[", shape, "],\"data_offsets\":[", at, ",",
                     at + array.bytes.size(), "]}");
    at += array.bytes.size();
    data_bytes += array.bytes.size();
  }
  header += "}";
  header.resize((header.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  const uint64_t header_bytes = header.size();
  std::string bytes(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  bytes.reserve(bytes.size() + header.size() + data_bytes);
  bytes += header;
  for (const NamedArray& array : arrays) bytes += array.bytes;
  return bytes;
}

}  // namespace millrace::inline model
