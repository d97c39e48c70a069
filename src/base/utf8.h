// UTF-8 text of unknown origin, taken apart so that it can be shown safely.
#ifndef MILLRACE_BASE_UTF8_H_
#define MILLRACE_BASE_UTF8_H_

#include <cstddef>
#include <optional>
#include <string_view>

namespace millrace {

struct Utf8Character {
  char32_t code;
  size_t bytes;  // that encode it: 1 to 4
};

// The first character of `text`; nothing if `text` is empty or does not begin with valid UTF-8
// (RFC 3629: no surrogates, no longer encoding than needed).
std::optional<Utf8Character> FirstCharacter(std::string_view text);

// False for characters that a terminal obeys or that change how other text is shown: controls
// (C0, DEL, C1), line separators, zero-width characters, marks of direction, tags.
bool IsPrintable(char32_t code);

// The beginning of `text`, at most `most` bytes, cut between two characters.
std::string_view CutText(std::string_view text, size_t most);

}  // namespace millrace

#endif  // MILLRACE_BASE_UTF8_H_
