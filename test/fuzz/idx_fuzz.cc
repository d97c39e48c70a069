// Pairs of idx files, plain or gzipped. They become a database with all of their records, or are
// rejected with one line and leave no files.
#include <zlib.h>

#include <cstdlib>
#include <optional>

#include "data/convert.h"
#include "data/lmdb_database.h"
#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

std::string BigEndian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

uint64_t NumberAt(const std::string& bytes, size_t at) {
  uint64_t number = 0;
  for (size_t i = at; i < at + 4; ++i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

std::string Images(uint32_t count, uint32_t rows, uint32_t columns) {
  return BigEndian(0x803) + BigEndian(count) + BigEndian(rows) + BigEndian(columns) +
         std::string(count * rows * columns, 'p');
}

std::string Labels(uint32_t count) {
  return BigEndian(0x801) + BigEndian(count) + std::string(count, '\x07');
}

std::string Gzip(const std::string& content) {
  z_stream stream = {};
  constexpr int kGzip = 16;
  if (deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    abort();
  }
  std::string packed(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = content.size();
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = packed.size();
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) abort();
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// One input holds both files: the length of the first file, then the two files.
std::string Pair(const std::string& images, const std::string& labels) {
  return BigEndian(images.size()) + images + labels;
}

bool IsGzip(const std::string& file) { return file.rfind("\x1f\x8b", 0) == 0; }

// Number of records of plain files according to the format; nullopt if they cannot be converted.
std::optional<uint64_t> Expected(const std::string& images, const std::string& labels) {
  if (images.size() < 16 || labels.size() < 8) return {};
  if (NumberAt(images, 0) != 0x803 || NumberAt(labels, 0) != 0x801) return {};
  const uint64_t count = NumberAt(images, 4), rows = NumberAt(images, 8),
                 columns = NumberAt(images, 12);
  if (count == 0 || rows == 0 || columns == 0 || count != NumberAt(labels, 4)) return {};
  // Larger than any file here; checked first to prevent overflow of the products.
  if (count > images.size() || rows > images.size() || columns > images.size()) return {};
  if (images.size() != 16 + count * rows * columns || labels.size() != 8 + count) return {};
  return count;
}

}  // namespace

std::vector<std::string> Corpus() {
  const std::string images = Images(3, 2, 4), labels = Labels(3);
  return {Pair(images, labels), Pair(Images(1, 1, 1), Labels(1)), Pair(Gzip(images), Gzip(labels)),
          Pair(images, Gzip(labels)), Pair(Gzip(Images(20, 28, 28)), Labels(20))};
}

bool Target(const std::string& input) {
  static const MemoryFolder folder;
  const std::string rest = input.substr(std::min<size_t>(4, input.size()));
  const uint64_t length = input.size() < 4 ? 0 : NumberAt(input, 0);
  const std::string images = rest.substr(0, length),
                    labels = rest.substr(std::min<uint64_t>(length, rest.size()));
  const MemoryFile image_file(images), label_file(labels);
  const bool plain = !IsGzip(images) && !IsGzip(labels);
  try {
    const uint64_t count = ConvertMnist(image_file.path(), label_file.path(), folder / "db");
    const bool same = LmdbDatabase::Open(folder / "db")->size() == count;
    folder.Remove("db");
    return same && (!plain || Expected(images, labels) == count);
  } catch (const Error& error) {
    return IsOneLineNaming(error, {image_file.path(), label_file.path()}) &&
           folder.entries() == 0 && (!plain || !Expected(images, labels));
  }
}

}  // namespace millrace::fuzz
