// Parts of texts, and numbers in them. Thread-safe.
#ifndef MILLRACE_BASE_TEXT_PARSE_H_
#define MILLRACE_BASE_TEXT_PARSE_H_

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace millrace::inline base {

// Parses all of `text` as a decimal number. Returns nullopt if it contains anything else, including
// blanks, or if the number does not fit `Value`.
template <typename Value>
std::optional<Value> ParseNumber(std::string_view text) {
  Value value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

// The parts between separators, empty ones too; one for a text without a separator.
inline std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// The same without the empty ones.
inline std::vector<std::string> SplitWords(std::string_view text, char separator) {
  std::vector<std::string> parts = Split(text, separator);
  std::erase(parts, "");
  return parts;
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_TEXT_PARSE_H_
