// Bytes as hexadecimal text.
#ifndef MILLRACE_BASE_TEXT_HEX_H_
#define MILLRACE_BASE_TEXT_HEX_H_

#include <cstddef>
#include <span>
#include <string>

namespace millrace::inline base {

// Two small digits for each byte.
inline std::string Hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte each : bytes) {
    text += kDigits[std::to_integer<int>(each) >> 4];
    text += kDigits[std::to_integer<int>(each) & 15];
  }
  return text;
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_TEXT_HEX_H_
