#include "collective/heartbeat_monitor.h"

#include "test/support/support.h"

namespace millrace::test {
namespace {

TEST(HeartbeatMonitor, NamesAProcessThatIsSilentForLongerThanTheLimit) {
  HeartbeatMonitor monitor(1, 3, 4, 60);
  for (int i = 0; i < 4; ++i) {
    monitor.OnHeartbeat(0);
    monitor.Sent();
  }
  EXPECT_EQ(monitor.lost(), "");  // rank 2 has been silent for just as long as it may be
  monitor.Sent();
  EXPECT_CONTAINS(monitor.lost(), "no heartbeat from rank 2 for 60 s");
}

TEST(HeartbeatMonitor, ForgetsSilenceWithEachHeartbeat) {
  HeartbeatMonitor monitor(0, 2, 3, 1);
  for (int i = 0; i < 100; ++i) {
    if (i % 3 == 0) monitor.OnHeartbeat(1);
    monitor.Sent();
  }
  EXPECT_EQ(monitor.lost(), "");
}

TEST(HeartbeatMonitor, DoesNotMissItself) {
  HeartbeatMonitor monitor(0, 1, 2, 1);
  for (int i = 0; i < 10; ++i) monitor.Sent();
  EXPECT_EQ(monitor.lost(), "");
}

TEST(HeartbeatMonitor, KeepsTheFirstReason) {
  HeartbeatMonitor monitor(0, 3, 1, 1);
  monitor.Failed(2, "label 40\nis too large");
  EXPECT_EQ(monitor.lost(), "rank 2 has failed: " + OneLine("label 40\nis too large"));
  monitor.Failed(1, "another");
  for (int i = 0; i < 5; ++i) monitor.Sent();
  EXPECT_CONTAINS(monitor.lost(), "rank 2 has failed: label 40");
}

}  // namespace
}  // namespace millrace::test
