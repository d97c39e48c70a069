#include "test/fuzz/support/arrays.h"

#include <zlib.h>

#include "base/error.h"
#include "test/fuzz/support/files.h"

namespace millrace::fuzz {
namespace {

template <typename T>
void Append(std::string* to, std::initializer_list<T> values) {
  for (const T value : values) to->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace

std::vector<NamedArray> SomeArrays() {
  return {{"conv.weight", {2, 3}, ElementType::kFloat32, std::string(24, 'x')},
          {"", {}, ElementType::kFloat64, "12345678"},
          {"i", {1, 0, 2}, ElementType::kInt64, ""},
          {"h", {2}, ElementType::kFloat16, "abcd"}};
}

std::string DeflatedNpz() {
  std::string header = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }";
  header.resize(118 - 1, ' ');
  header += '\n';
  std::string npy = "\x93NUMPY";
  Append<uint8_t>(&npy, {1, 0});
  Append<uint16_t>(&npy, {static_cast<uint16_t>(header.size())});
  npy += header + "abcdefghijkl";
  std::string stored(compressBound(npy.size()), '\0');
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(npy.data());
  stream.avail_in = static_cast<uInt>(npy.size());
  stream.next_out = reinterpret_cast<Bytef*>(stored.data());
  stream.avail_out = static_cast<uInt>(stored.size());
  deflate(&stream, Z_FINISH);
  stored.resize(stream.total_out);
  deflateEnd(&stream);
  const auto checksum = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(npy.data()), static_cast<uInt>(npy.size())));
  std::string common;
  Append<uint16_t>(&common, {20, 0, 8, 0, 33});
  Append<uint32_t>(
      &common, {checksum, static_cast<uint32_t>(stored.size()), static_cast<uint32_t>(npy.size())});
  Append<uint16_t>(&common, {5, 0});
  std::string file = "PK\3\4" + common + "c.npy" + stored;
  const auto directory = static_cast<uint32_t>(file.size());
  file += "PK\1\2";
  Append<uint16_t>(&file, {20});
  file += common;
  Append<uint16_t>(&file, {0, 0, 0, 0, 0});
  Append<uint32_t>(&file, {0});
  file += "c.npy";
  const auto end = static_cast<uint32_t>(file.size());
  file += "PK\5\6";
  Append<uint16_t>(&file, {0, 0, 1, 1});
  Append<uint32_t>(&file, {end - directory, directory});
  Append<uint16_t>(&file, {0});
  return file;
}

bool ParsesOrNames(ArrayParser parse,
                   std::string (*write)(const std::vector<NamedArray>&, const std::string&),
                   const std::string& input) {
  const std::string path = "/a/file";
  std::vector<NamedArray> arrays;
  try {
    arrays = parse(input, path);
  } catch (const Error& error) {
    return IsOneLineNaming(error, {path});
  }
  for (const NamedArray& array : arrays) {
    const auto count = static_cast<size_t>(CountOf(array.shape, path));
    if (array.bytes.size() != count * BytesOf(array.type)) return false;
    if (FloatsOf(array.type, array.bytes).size() != count) return false;
  }
  try {
    write(arrays, path);
    return true;
  } catch (const Error& error) {  // a reserved name
    return IsOneLineNaming(error, {path});
  }
}

}  // namespace millrace::fuzz
