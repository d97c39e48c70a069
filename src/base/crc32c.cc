#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <array>

namespace millrace::inline base {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bit-reflected
using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[n][byte]: contribution of a byte that is followed by n more bytes.
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t behind = 1; behind < tables.size(); ++behind) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[behind - 1][byte];
      tables[behind][byte] = crc >> 8 ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

uint32_t crc32c::ByTables(const std::byte* at, size_t bytes, uint32_t crc) {
  const auto part = [](size_t behind, uint64_t word, int shift) {
    return kTables[behind][word >> shift & 0xff];
  };
  for (size_t left = bytes / 8; left > 0; --left) {
    const uint64_t word = Next<uint64_t>(&at) ^ crc;
    crc = part(7, word, 0) ^ part(6, word, 8) ^ part(5, word, 16) ^ part(4, word, 24) ^
          part(3, word, 32) ^ part(2, word, 40) ^ part(1, word, 48) ^ part(0, word, 56);
  }
  for (size_t left = bytes % 8; left > 0; --left) {
    crc = crc >> 8 ^ part(0, crc ^ Next<uint8_t>(&at), 0);
  }
  return crc;
}

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc) {
  if (!crc32c::instruction_pays) return ~crc32c::ByTables(bytes.data(), bytes.size(), ~crc);
  if (bytes.size() < crc32c::kLongBytes) {
    return ~crc32c::Short(bytes.data(), bytes.size(), ~crc);
  }
  // crc32_iscsi() does not invert the checksum at start and end, and only reads the data.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
  return ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~crc);
}

}  // namespace millrace::inline base
