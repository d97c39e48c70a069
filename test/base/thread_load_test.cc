#include "base/threads/thread_load.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "test/support/eventually.h"
#include "test/support/one_processor.h"

namespace millrace {
namespace {

constexpr int64_t kMs = 1'000'000;

int64_t OwnCpuNs() { return PosixClockNs(CLOCK_THREAD_CPUTIME_ID); }

void Burn(int64_t cpu_ns) {
  const int64_t end = OwnCpuNs() + cpu_ns;
  while (OwnCpuNs() < end) {
  }
}

class ThreadLoadTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::CountsWaitingTimes()) GTEST_SKIP() << "this kernel does not count waiting times";
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

TEST_F(ThreadLoadTest, KeepsTheTimesOfAMemberWhoseThreadHasEnded) {
  std::optional<ThreadLoad::Member> member;
  std::thread([&] {
    member.emplace(&load_);
    Burn(40 * kMs);
    EXPECT_GE(load_.Read().cpu_ns, 20 * kMs);
  }).join();
  const int64_t before = load_.Read().cpu_ns;
  EXPECT_GE(before, 20 * kMs);
  member.reset();
  EXPECT_EQ(load_.threads(), 0);
  EXPECT_GE(load_.Read().cpu_ns, before);
}

TEST_F(ThreadLoadTest, CountsTheTimeThatMembersWaitForAProcessor) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    const test::OneProcessor processor;
    while (!stop) {
    }
  });
  std::thread thread([&] {
    const test::OneProcessor processor;
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
