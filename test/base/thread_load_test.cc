#include "base/threads/thread_load.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <ctime>
#include <fstream>
#include <thread>

#include "base/posix_clock.h"
#include "test/support/eventually.h"

namespace millrace {
namespace {

constexpr int64_t kMs = 1'000'000;

int64_t OwnCpuNs() { return PosixClockNs(CLOCK_THREAD_CPUTIME_ID); }

void Burn(int64_t cpu_ns) {
  const int64_t end = OwnCpuNs() + cpu_ns;
  while (OwnCpuNs() < end) {
  }
}

void StayOnOneProcessor() {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
}

class ThreadLoadTest : public testing::Test {
 protected:
  void SetUp() override {
    int64_t cpu_ns = 0;
    std::ifstream("/proc/thread-self/schedstat") >> cpu_ns;
    if (cpu_ns == 0) GTEST_SKIP() << "this kernel does not count waiting times";
  }
  ThreadLoad load_;
};

TEST_F(ThreadLoadTest, CountsWhatMembersUseFromWhenTheyJoin) {
  std::thread thread([&] {
    Burn(60 * kMs);
    EXPECT_EQ(load_.threads(), 0);
    const ThreadLoad::Member member(&load_);
    EXPECT_EQ(load_.threads(), 1);
    EXPECT_LT(load_.Read().cpu_ns, 30 * kMs);
    Burn(40 * kMs);
    // The kernel updates the CPU time of a running thread once per tick.
    EXPECT_GE(load_.Read().cpu_ns, 25 * kMs);
    EXPECT_LT(load_.Read().cpu_ns, 60 * kMs);
  });
  thread.join();
}

TEST_F(ThreadLoadTest, KeepsTheTimesOfMembersThatHaveLeft) {
  for (int i = 0; i < 2; ++i) {
    std::thread([&] {
      const ThreadLoad::Member member(&load_);
      Burn(40 * kMs);
    }).join();
  }
  EXPECT_EQ(load_.threads(), 0);
  EXPECT_GE(load_.Read().cpu_ns, 60 * kMs);
}

TEST_F(ThreadLoadTest, CountsTheTimeThatMembersWaitForAProcessor) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    StayOnOneProcessor();
    while (!stop) {
    }
  });
  std::thread thread([&] {
    StayOnOneProcessor();
    const ThreadLoad::Member member(&load_);
    // The other thread takes time slices, however long it takes until it begins.
    EXPECT_TRUE(test::Eventually([&] {
      Burn(10 * kMs);
      return load_.Read().waiting_ns >= 30 * kMs;
    }));
  });
  thread.join();
  stop = true;
  other.join();
}

}  // namespace
}  // namespace millrace
