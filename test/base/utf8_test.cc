#include "base/text/utf8.h"

#include <gtest/gtest.h>

namespace millrace::test {
namespace {

// Code point of the character that is the whole of `text`; -1 if `text` is not a single character.
int64_t CodeOf(std::string_view text) {
  const std::optional<Utf8Character> first = FirstCharacter(text);
  return first && first->bytes == text.size() ? int64_t{first->code} : -1;
}

TEST(Utf8, GivesTheCodesOfCharacters) {
  EXPECT_EQ(CodeOf("a"), 'a');
  EXPECT_EQ(CodeOf(std::string_view("\0", 1)), 0);
  EXPECT_EQ(CodeOf("\x7f"), 0x7f);
  EXPECT_EQ(CodeOf("\xc2\x80"), 0x80);
  EXPECT_EQ(CodeOf("\xdf\xbf"), 0x7ff);
  EXPECT_EQ(CodeOf("\xe0\xa0\x80"), 0x800);
  EXPECT_EQ(CodeOf("\xed\x9f\xbf"), 0xd7ff);
  EXPECT_EQ(CodeOf("\xee\x80\x80"), 0xe000);
  EXPECT_EQ(CodeOf("\xef\xbf\xbf"), 0xffff);
  EXPECT_EQ(CodeOf("\xf0\x90\x80\x80"), 0x10000);
  EXPECT_EQ(CodeOf("\xf4\x8f\xbf\xbf"), 0x10ffff);
  EXPECT_EQ(FirstCharacter("\u00e9x")->bytes, 2u);
}

TEST(Utf8, RefusesWhatIsNone) {
  for (const char* text : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2x", "\xe0\x9f\xbf",
                           "\xe2\x82", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf",
                           "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82x"}) {
    EXPECT_FALSE(FirstCharacter(text)) << text;
  }
}

TEST(Utf8, TellsWhatATerminalObeysFromWhatItShows) {
  for (const char32_t code : {U' ', U'~', U'\u00a0', U'\u00e9', U'\u7f51', U'\U0001f600'}) {
    EXPECT_TRUE(IsPrintable(code)) << static_cast<uint32_t>(code);
  }
  // Control characters, bidirectional marks, line separators, tags, codes of no character.
  for (const uint32_t code : {0x00, 0x1b, 0x1f, 0x7f, 0x80, 0x9b, 0x9f, 0x61c, 0x200b, 0x200f,
                              0x2028, 0x202e, 0x2066, 0xfeff, 0xfffe, 0xffff, 0xe0041}) {
    EXPECT_FALSE(IsPrintable(code)) << code;
  }
}

TEST(Utf8, CutsBetweenTwoCharacters) {
  EXPECT_EQ(CutText("abc", 3), "abc");
  EXPECT_EQ(CutText("abc", 2), "ab");
  EXPECT_EQ(CutText("a\u00e9", 2), "a");
  EXPECT_EQ(CutText("\u7f51", 2), "");
  EXPECT_EQ(CutText("", 2), "");
  // Each byte of invalid UTF-8 counts as one character.
  EXPECT_EQ(CutText("\x80\x80\x80", 2), "\x80\x80");
}

}  // namespace
}  // namespace millrace::test
