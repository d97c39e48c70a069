#include "base/crc32c.h"

#include <isa-l/crc.h>

namespace millrace {

const bool crc32c::has_instruction = __builtin_cpu_supports("sse4.2");

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc) {
  if (bytes.size() < crc32c::kLongBytes && crc32c::has_instruction) {
    return ~crc32c::Short(bytes.data(), bytes.size(), ~crc);
  }
  // The library neither inverts at the start nor at the end, and reads only.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
  return ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~crc);
}

}  // namespace millrace
