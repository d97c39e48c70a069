// Names of registered things, and names in messages. Thread-safe.
#ifndef MILLRACE_BASE_TEXT_NAMES_H_
#define MILLRACE_BASE_TEXT_NAMES_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace millrace::inline base {

// What IsName accepts, for messages.
inline constexpr const char* kExpectedName = "lower-case letters, digits and '_'";

inline bool IsName(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == text.npos;
}

// Whether a text is 1 to 64 letters, digits, '-', '_' or '.', the first a letter or digit, in any
// locale.
inline bool IsIdentifier(std::string_view text) {
  constexpr std::string_view kFirst =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  constexpr size_t kMaxChars = 64;
  if (text.empty() || text.size() > kMaxChars || kFirst.find(text[0]) == kFirst.npos) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return kFirst.find(c) != kFirst.npos || c == '-' || c == '_' || c == '.';
  });
}

// The name with index `number`; where there is none, the number after `prefix`. For numbers of
// other nodes' messages.
inline std::string NameAt(std::span<const std::string> names, size_t number,
                          std::string_view prefix = "") {
  return number < names.size() ? names[number] : StrCat(prefix, number);
}

// "a, b, c" of a container of strings.
template <typename Names>
std::string Joined(const Names& names) {
  std::string text;
  for (const auto& name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_TEXT_NAMES_H_
