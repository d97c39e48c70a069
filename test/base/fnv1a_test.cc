#include "base/fnv1a.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Fnv1a, IsWhatItsAuthorsPublish) {
  EXPECT_EQ(Fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(Fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(Fnv1a("foobar"), 0x85944171f73967e8u);
  EXPECT_EQ(Fnv1a(std::string_view("\0", 1)), 0xaf63bd4c8601b7dfu);
}

TEST(Fnv1a, TakesBytesAbove127AsTheyAre) { EXPECT_EQ(Fnv1a("\xff"), 0xaf64724c8602eb6eu); }

}  // namespace
}  // namespace millrace
