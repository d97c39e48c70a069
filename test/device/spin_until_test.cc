#include "device/spin_until.h"

#include <gtest/gtest.h>

#include "test/support/fake_clock.h"

namespace millrace::test {
namespace {

// The number of the call at which is_done() is true; with a minus, the calls until it gives up. The
// clock advances by 10 ns at each reading.
int EndsAt(int64_t limit_ns, int done_at) {
  const FakeClock clock([](int) { return 10; });
  int calls = 0;
  const bool done = SpinUntil([&] { return ++calls == done_at; }, clock, limit_ns);
  EXPECT_EQ(done, calls == done_at);
  return done ? calls : -calls;
}

TEST(SpinUntil, EndsWhenItIsDoneOrTheTimeIsOver) {
  EXPECT_EQ(EndsAt(50, 1), 1);
  EXPECT_EQ(EndsAt(50, 4), 4);
  EXPECT_EQ(EndsAt(50, 5), 5);
  EXPECT_EQ(EndsAt(50, 6), -5);
  EXPECT_EQ(EndsAt(0, 1), 1) << "asks at least once";
  EXPECT_EQ(EndsAt(0, 2), -1);
}

}  // namespace
}  // namespace millrace::test
