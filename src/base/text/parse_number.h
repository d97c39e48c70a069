// Strict number parsing.
#ifndef MILLRACE_BASE_TEXT_PARSE_NUMBER_H_
#define MILLRACE_BASE_TEXT_PARSE_NUMBER_H_

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

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

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_TEXT_PARSE_NUMBER_H_
