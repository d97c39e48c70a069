#include "base/text/format.h"

#include <gtest/gtest.h>

namespace millrace::test {
namespace {

TEST(Quoted, KeepsTextAndEscapesControlCharacters) {
  EXPECT_EQ(Quoted("conv1/3x3 \xc3\xa9"), "'conv1/3x3 \xc3\xa9'");
  EXPECT_EQ(Quoted(""), "''");
  EXPECT_EQ(Quoted(std::string_view("a\nb\t\0\x7f", 6)), "'a\\x0ab\\x09\\x00\\x7f'");
}

}  // namespace
}  // namespace millrace::test
