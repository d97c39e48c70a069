// 64-bit FNV-1a hash (Fowler, Noll, Vo; RFC 9923). Not cryptographic: it detects accidental
// differences between texts but not collisions made on purpose. Thread-safe.
#ifndef MILLRACE_BASE_FNV1A_H_
#define MILLRACE_BASE_FNV1A_H_

#include <cstdint>
#include <string_view>

namespace millrace::inline base {

// Fnv1a("foobar") is 0x85944171f73967e8.
constexpr uint64_t Fnv1a(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// A shorter hash: the halves of `hash` combined by exclusive or.
constexpr uint32_t Folded(uint64_t hash) { return static_cast<uint32_t>(hash ^ hash >> 32); }

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_FNV1A_H_
