// CRC-32C (Castagnoli; RFC 3720, section 12.1), as iSCSI and ext4 use it.
// Thread-safe.
#ifndef MILLRACE_BASE_CRC32C_H_
#define MILLRACE_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

// The checksum of what `crc` is the checksum of, followed by `bytes`; 0 is the
// checksum of nothing. Crc32c("123456789") is 0xe3069283.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);
// Of two pieces, one behind the other: where both are short, in less time than one by one.
uint32_t Crc32c(std::span<const std::byte> first, std::span<const std::byte> second);

}  // namespace millrace

#endif  // MILLRACE_BASE_CRC32C_H_
