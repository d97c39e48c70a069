#include "base/crc32c.h"

#include <isa-l/crc.h>
#include <nmmintrin.h>

#include <cstring>

namespace millrace {
namespace {

// Below this, what the library needs to begin costs more than its interleaving gains.
constexpr size_t kShortBytes = 192;

template <typename T>
inline T Next(const std::byte** at) {
  T value;
  std::memcpy(&value, *at, sizeof(T));
  *at += sizeof(T);
  return value;
}

const bool has_instruction = __builtin_cpu_supports("sse4.2");

// Neither inverts at the start nor at the end.
__attribute__((target("sse4.2"))) inline uint32_t CrcOfShort(const std::byte* at, size_t bytes,
                                                             uint32_t crc) {
  uint64_t words = crc;
  size_t left = bytes / 8;
  for (; left >= 4; left -= 4) {
    words = _mm_crc32_u64(words, Next<uint64_t>(&at));
    words = _mm_crc32_u64(words, Next<uint64_t>(&at));
    words = _mm_crc32_u64(words, Next<uint64_t>(&at));
    words = _mm_crc32_u64(words, Next<uint64_t>(&at));
  }
  for (; left > 0; --left) words = _mm_crc32_u64(words, Next<uint64_t>(&at));
  crc = static_cast<uint32_t>(words);
  if (bytes & 4) crc = _mm_crc32_u32(crc, Next<uint32_t>(&at));
  if (bytes & 2) crc = _mm_crc32_u16(crc, Next<uint16_t>(&at));
  if (bytes & 1) crc = _mm_crc32_u8(crc, Next<uint8_t>(&at));
  return crc;
}

// Of two pieces, in one call.
__attribute__((target("sse4.2"))) uint32_t CrcOfShorts(std::span<const std::byte> first,
                                                       std::span<const std::byte> second) {
  const uint32_t crc = CrcOfShort(first.data(), first.size(), ~0u);
  return ~CrcOfShort(second.data(), second.size(), crc);
}

}  // namespace

uint32_t Crc32c(std::span<const std::byte> first, std::span<const std::byte> second) {
  if (first.size() < kShortBytes && second.size() < kShortBytes && has_instruction) {
    return CrcOfShorts(first, second);
  }
  return Crc32c(second, Crc32c(first));
}

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc) {
  if (bytes.size() < kShortBytes && has_instruction) {
    return ~CrcOfShort(bytes.data(), bytes.size(), ~crc);
  }
  // The library neither inverts at the start nor at the end, and reads only.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
  return ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~crc);
}

}  // namespace millrace
