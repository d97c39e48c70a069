#include "base/error.h"

#include <gtest/gtest.h>

namespace millrace::test {
namespace {

TEST(Error, IsOneLineWhateverNamesItQuotes) {
  EXPECT_STREQ(Error("a\nb", ": ", 7, "\r\t\033[2J\177").what(), "a?b: 7???[2J?");
  EXPECT_STREQ(Error(std::string("a\0b", 3)).what(), "a?b");
}

// A terminal may interpret U+009B, or the byte 0x9b, as ESC [.
TEST(Error, ShowsNoControlCharactersOfEightBitsAndNothingThatIsNoUtf8) {
  EXPECT_STREQ(Error("a\u009b2Jb\x9b"
                     "2Jc\u202ed\xc3")
                   .what(),
               "a?2Jb?2Jc?d?");
}

TEST(Error, LeavesPrintableTextAndUtf8Alone) {
  EXPECT_STREQ(Error("r\u00e9seau ~ '\u7f51'").what(), "r\u00e9seau ~ '\u7f51'");
}

}  // namespace
}  // namespace millrace::test
