#include "base/registration.h"

#include <gtest/gtest.h>

#include "test/support/support.h"

namespace millrace::test {
namespace {

TEST(Registration, RecordsMistakesUntilTheyAreThrown) {
  CheckRegistrations();
  ReportBadRegistration("rule x: twice");
  ReportBadRegistration("rule y: twice");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ErrorOf([] { CheckRegistrations(); }), "rule x: twice");
  }
  EXPECT_EQ(TakeBadRegistrations(), (std::vector<std::string>{"rule x: twice", "rule y: twice"}));
  CheckRegistrations();
}

}  // namespace
}  // namespace millrace::test
