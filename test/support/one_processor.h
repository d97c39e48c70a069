// Threads that compete for a processor.
#ifndef MILLRACE_TEST_SUPPORT_ONE_PROCESSOR_H_
#define MILLRACE_TEST_SUPPORT_ONE_PROCESSOR_H_

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdint>
#include <fstream>

namespace millrace::test {

// Whether the kernel counts how long threads wait for a processor.
inline bool CountsWaitingTimes() {
  int64_t cpu_ns = 0;
  std::ifstream("/proc/thread-self/schedstat") >> cpu_ns;
  return cpu_ns != 0;
}

// Restricts the calling thread, and those that it starts, to the first of its processors, until the
// end of the block.
class OneProcessor {
 public:
  OneProcessor() {
    EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    int first = 0;
    while (!CPU_ISSET(first, &before_)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~OneProcessor() { EXPECT_EQ(sched_setaffinity(0, sizeof(before_), &before_), 0); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_ONE_PROCESSOR_H_
