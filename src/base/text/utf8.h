// Safe display of untrusted UTF-8 text.
#ifndef MILLRACE_BASE_TEXT_UTF8_H_
#define MILLRACE_BASE_TEXT_UTF8_H_

#include <cstddef>
#include <optional>
#include <string_view>

namespace millrace::inline base {

struct Utf8Character {
  char32_t code;
  size_t bytes;  // length of its encoding: 1 to 4
};

// The first character of `text`. nullopt if `text` is empty or does not begin with valid UTF-8 (RFC
// 3629: no surrogates, no overlong encoding).
std::optional<Utf8Character> FirstCharacter(std::string_view text);

// False for characters that control a terminal or change how other text is displayed: controls (C0,
// DEL, C1), line separators, zero-width characters, directional marks and tags.
bool IsPrintable(char32_t code);

// The longest prefix of `text` with at most `most` bytes that does not split a character.
std::string_view CutText(std::string_view text, size_t most);

// `text` without the mark of UTF-8, U+FEFF, with which some editors begin their files.
std::string_view WithoutByteOrderMark(std::string_view text);

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_TEXT_UTF8_H_
