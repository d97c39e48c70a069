#include "test/tools/tools_support.h"

// With a sanitizer, g++ 12 gives a false warning for the standard library's own code.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <regex>

namespace millrace::test {

std::vector<std::string> Matches(const std::string& text, const std::string& pattern, int group) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    found.push_back((*it)[group]);
  }
  return found;
}

bool MatchesWhole(const std::string& text, const std::string& pattern) {
  return std::regex_match(text, std::regex(pattern));
}

}  // namespace millrace::test
