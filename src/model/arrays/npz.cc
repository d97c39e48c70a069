// NumPy's .npz: a ZIP archive with a file NAME.npy for each array. A .npy file is a magic number, a
// version, the length of a header, the header, which is a dict in Python, and the data.
#include <map>
#include <optional>

#include "base/error.h"
#include "model/arrays/array_file.h"
#include "model/arrays/byte_reader.h"
#include "model/arrays/text_reader.h"
#include "model/arrays/zip.h"

namespace millrace::inline model {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;

const std::map<std::string, ElementType>& NumpyTypes() {
  static const std::map<std::string, ElementType> types = {
      {"|b1", ElementType::kBool},    {"|u1", ElementType::kUint8},
      {"|i1", ElementType::kInt8},    {"<u2", ElementType::kUint16},
      {"<i2", ElementType::kInt16},   {"<u4", ElementType::kUint32},
      {"<i4", ElementType::kInt32},   {"<u8", ElementType::kUint64},
      {"<i8", ElementType::kInt64},   {"<f2", ElementType::kFloat16},
      {"<f4", ElementType::kFloat32}, {"<f8", ElementType::kFloat64}};
  return types;
}

// The distances of elements along each axis in column-major order.
ArrayShape ColumnMajorStride(const ArrayShape& shape) {
  ArrayShape stride(shape.size(), 1);
  for (size_t i = 1; i < shape.size(); ++i) stride[i] = stride[i - 1] * shape[i - 1];
  return stride;
}

NamedArray ParseNpy(const std::string& name, const std::string& bytes, const std::string& where) {
  ByteReader reader(bytes, where);
  if (reader.left() < 8 || reader.Take(kMagic.size()) != kMagic) {
    throw Error(where, ": expected an array of NumPy");
  }
  const auto version = reader.Number<uint8_t>();
  reader.Take(1);
  if (version < 1 || version > 3) reader.Fail(StrCat("version ", +version, ", expected 1 to 3"));
  const uint64_t header_bytes =
      version == 1 ? reader.Number<uint16_t>() : uint64_t{reader.Number<uint32_t>()};
  TextReader header(reader.Take(header_bytes), where);
  const std::string_view data = reader.Take(reader.left());
  NamedArray array;
  array.name = name;
  std::optional<ElementType> type;
  std::optional<bool> column_major;
  bool has_shape = false;
  header.Expect("{");
  while (!header.Accept("}")) {
    const std::string key = header.Text('\'');
    header.Expect(":");
    if (key == "descr") {
      const std::string text = header.Text('\'');
      const auto found = NumpyTypes().find(text);
      if (found == NumpyTypes().end()) {
        throw Error(where, ": type '", text,
                    "', expected numbers in the byte order of this machine, such as '<f4'");
      }
      type = found->second;
    } else if (key == "fortran_order") {
      column_major = header.Accept("True");
      if (!*column_major) header.Expect("False");
    } else if (key == "shape") {
      array.shape = header.Wholes("(", ")", true);
      has_shape = true;
    } else {
      throw Error(where, ": unknown field '", key, "'");
    }
    if (!header.Accept(",")) {
      header.Expect("}");
      break;
    }
  }
  header.ExpectEnd();
  if (!type || !column_major || !has_shape) {
    throw Error(where, ": expected descr, fortran_order and shape");
  }
  array.type = *type;
  const uint64_t data_bytes = ExpectBytes(data.size(), array.shape, array.type, where);
  const size_t width = BytesOf(array.type);
  array.bytes = *column_major
                    ? RowMajor(data, width, 0, array.shape, ColumnMajorStride(array.shape),
                               static_cast<int64_t>(data_bytes / width))
                    : std::string(data);
  return array;
}

std::string NpyOf(const NamedArray& array, const std::string& path) {
  std::string type;
  for (const auto& [name, each] : NumpyTypes()) {
    if (each == array.type) type = name;
  }
  if (type.empty()) {
    throw Error(path, ": array '", array.name, "': NumPy has no ", NameOf(array.type));
  }
  std::string shape;
  for (const int64_t length : array.shape) shape += StrCat(length, ", ");
  // (3,) and (3, 4) are tuples of Python.
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  if (array.shape.size() == 1) shape.resize(shape.size() - 1);
  std::string header =
      StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", shape, "), }");
  const size_t before = kMagic.size() + 4;
  const size_t padded = (before + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header.resize(padded - before - 1, ' ');
  header += '\n';
  const auto header_bytes = static_cast<uint16_t>(header.size());
  std::string bytes(kMagic);
  bytes += {1, 0};
  bytes.append(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  return bytes + header + array.bytes;
}

}  // namespace

std::vector<NamedArray> ParseNpz(const std::string& bytes, const std::string& path) {
  const ZipReader zip(bytes, path);
  std::vector<NamedArray> arrays;
  for (size_t i = 0; i < zip.names().size(); ++i) {
    std::string name = zip.names()[i];
    const std::string where = path + ": " + name;
    if (!name.ends_with(".npy")) throw Error(where, ": expected arrays only, NAME.npy");
    name.resize(name.size() - 4);
    arrays.push_back(ParseNpy(name, zip.Read(i), where));
  }
  return arrays;
}

std::string NpzOf(const std::vector<NamedArray>& arrays, const std::string& path) {
  ZipWriter zip(path);
  for (const NamedArray& array : arrays) zip.Add(array.name + ".npy", NpyOf(array, path));
  return zip.Finish();
}

}  // namespace millrace::inline model
