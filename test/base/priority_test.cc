#include "base/threads/thread.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace millrace {
namespace {

int NiceValue() { return getpriority(PRIO_PROCESS, 0); }

TEST(Priority, PutsTheCallingThreadAloneBeforeOthers) {
  const int mine = NiceValue();
  bool granted = false;
  int its = mine;
  std::thread([&] {
    granted = RunBeforeOthers();
    its = NiceValue();
  }).join();
  if (!granted) GTEST_SKIP() << "neither CAP_SYS_NICE nor RLIMIT_NICE allows it";
  EXPECT_EQ(its, std::max(mine - 10, -20));
  EXPECT_EQ(NiceValue(), mine);
}

TEST(Priority, ChangesNothingWithoutThePermission) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NICE, &limit), 0);
  if (limit.rlim_cur != 0) GTEST_SKIP() << "RLIMIT_NICE allows it to all";
  const int before = NiceValue();
  std::thread([&] {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2] = {};
    ASSERT_EQ(syscall(SYS_capset, &header, none), 0);  // only for this thread
    EXPECT_FALSE(RunBeforeOthers());
    EXPECT_EQ(NiceValue(), before);
  }).join();
}

}  // namespace
}  // namespace millrace
