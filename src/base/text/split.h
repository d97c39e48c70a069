// Text in parts.
#ifndef MILLRACE_BASE_TEXT_SPLIT_H_
#define MILLRACE_BASE_TEXT_SPLIT_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::inline base {

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

#endif  // MILLRACE_BASE_TEXT_SPLIT_H_
