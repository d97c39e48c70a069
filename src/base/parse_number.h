// Numbers that are all of a text.
#ifndef MILLRACE_BASE_PARSE_NUMBER_H_
#define MILLRACE_BASE_PARSE_NUMBER_H_

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace millrace {

// The number that `text` is, decimal and without blanks; none if it is anything else
// or does not fit.
template <typename Value>
std::optional<Value> ParseNumber(std::string_view text) {
  Value value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace millrace

#endif  // MILLRACE_BASE_PARSE_NUMBER_H_
