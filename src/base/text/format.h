// Bytes, sizes and names from files in messages. Thread-safe.
#ifndef MILLRACE_BASE_TEXT_FORMAT_H_
#define MILLRACE_BASE_TEXT_FORMAT_H_

#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace millrace::inline base {

// Bytes as hexadecimal text: two small digits for each.
inline std::string Hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte each : bytes) {
    text += kDigits[std::to_integer<int>(each) >> 4];
    text += kDigits[std::to_integer<int>(each) & 15];
  }
  return text;
}

// `text` in single quotes. Control characters become "\xNN", so that a message stays one line.
inline std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code != 0x7f) {
      quoted += c;
      continue;
    }
    char escape[5];
    std::snprintf(escape, sizeof(escape), "\\x%02x", static_cast<unsigned>(code));
    quoted += escape;
  }
  return quoted + "'";
}

inline double MiB(double bytes) { return bytes / (1 << 20); }

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_TEXT_FORMAT_H_
