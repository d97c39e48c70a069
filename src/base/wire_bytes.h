// Little-endian integers at unaligned addresses.
#ifndef MILLRACE_BASE_WIRE_BYTES_H_
#define MILLRACE_BASE_WIRE_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstring>

namespace millrace::inline base {

static_assert(std::endian::native == std::endian::little, "frames are written as they lie");

template <typename T>
inline void Put(std::byte* out, size_t offset, T value) {
  std::memcpy(out + offset, &value, sizeof(T));
}

template <typename T>
inline T Get(const std::byte* in, size_t offset) {
  T value;
  std::memcpy(&value, in + offset, sizeof(T));
  return value;
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_WIRE_BYTES_H_
