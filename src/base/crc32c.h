// CRC-32C (Castagnoli; RFC 3720, section 12.1), as iSCSI and ext4 use it.
// Thread-safe.
#ifndef MILLRACE_BASE_CRC32C_H_
#define MILLRACE_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#ifdef __x86_64__
#include <nmmintrin.h>
#else
#include <arm_acle.h>
#endif

namespace millrace::inline base {

// Returns the CRC-32C of `bytes`, continued from `crc`: the checksum of the preceding data, or 0 if
// there is none. Crc32c("123456789") is 0xe3069283.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

// Internal functions: they do not invert the checksum at the start and at the end.
namespace crc32c {

// Size in bytes from which ISA-L's interleaved loop outweighs its start-up cost.
inline constexpr size_t kLongBytes = 192;
// True if the processor has a CRC instruction (of SSE 4.2, or of ARMv8) and executes it quickly.
// QEMU without KVM emulates that of x86 with one loop iteration per bit, four times slower than
// tables.
extern const bool instruction_pays;

// Slicing-by-8 (Kounavis and Berry, ISCC 2005): eight bytes per step with one table each. Runs on
// any processor.
uint32_t ByTables(const std::byte* at, size_t bytes, uint32_t crc);

template <typename T>
inline T Next(const std::byte** at) {
  T value;
  std::memcpy(&value, *at, sizeof(T));
  *at += sizeof(T);
  return value;
}

// Continues the checksum by the bytes of one integer. On x86 a 64-bit checksum saves an
// instruction.
#ifdef __x86_64__
#define MILLRACE_CRC __attribute__((target("sse4.2")))
MILLRACE_CRC inline uint64_t Add(uint64_t crc, uint64_t word) { return _mm_crc32_u64(crc, word); }
MILLRACE_CRC inline uint32_t Add(uint32_t crc, uint32_t word) { return _mm_crc32_u32(crc, word); }
MILLRACE_CRC inline uint32_t Add(uint32_t crc, uint16_t word) { return _mm_crc32_u16(crc, word); }
MILLRACE_CRC inline uint32_t Add(uint32_t crc, uint8_t byte) { return _mm_crc32_u8(crc, byte); }
#else
#define MILLRACE_CRC __attribute__((target("+crc")))
MILLRACE_CRC inline uint32_t Add(uint32_t crc, uint64_t word) { return __crc32cd(crc, word); }
MILLRACE_CRC inline uint32_t Add(uint32_t crc, uint32_t word) { return __crc32cw(crc, word); }
MILLRACE_CRC inline uint32_t Add(uint32_t crc, uint16_t word) { return __crc32ch(crc, word); }
MILLRACE_CRC inline uint32_t Add(uint32_t crc, uint8_t byte) { return __crc32cb(crc, byte); }
#endif

MILLRACE_CRC inline uint32_t Tail(const std::byte* at, size_t bytes, uint32_t crc) {
  if (bytes & 4) crc = Add(crc, Next<uint32_t>(&at));
  if (bytes & 2) crc = Add(crc, Next<uint16_t>(&at));
  if (bytes & 1) crc = Add(crc, Next<uint8_t>(&at));
  return crc;
}

MILLRACE_CRC inline uint32_t Short(const std::byte* at, size_t bytes, uint32_t crc) {
  uint64_t words = crc;
  for (size_t left = bytes / 8; left > 0; --left) {
    words = Add(words, Next<uint64_t>(&at));
  }
  return Tail(at, bytes, static_cast<uint32_t>(words));
}

template <size_t kFirst>
MILLRACE_CRC uint32_t Shorts(const std::byte* at, const std::byte* second, size_t bytes) {
  uint64_t words = ~0u;
#pragma GCC unroll 24
  for (size_t i = 0; i < kFirst / 8; ++i) words = Add(words, Next<uint64_t>(&at));
  return Short(second, bytes, Tail(at, kFirst, static_cast<uint32_t>(words)));
}

}  // namespace crc32c

// CRC-32C of `first`, a short block of constant length, followed by `second`. If `second` is short
// too, this is faster than two separate calls.
template <size_t kFirst>
uint32_t Crc32c(std::span<const std::byte, kFirst> first, std::span<const std::byte> second) {
  static_assert(kFirst < crc32c::kLongBytes);
  if (second.size() < crc32c::kLongBytes && crc32c::instruction_pays) {
    return ~crc32c::Shorts<kFirst>(first.data(), second.data(), second.size());
  }
  return Crc32c(second, Crc32c(std::span<const std::byte>(first)));
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_CRC32C_H_
