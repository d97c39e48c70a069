// FNV-1a of 64 bits (Fowler, Noll, Vo; RFC 9923): a digest that tells different texts
// apart, and is no defence against somebody who makes them equal. Thread-safe.
#ifndef MILLRACE_BASE_FNV1A_H_
#define MILLRACE_BASE_FNV1A_H_

#include <cstdint>
#include <string_view>

namespace millrace {

// Fnv1a("foobar") is 0x85944171f73967e8.
constexpr uint64_t Fnv1a(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace millrace

#endif  // MILLRACE_BASE_FNV1A_H_
