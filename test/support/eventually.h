// Waits for the effects of other threads and processes.
#ifndef MILLRACE_TEST_SUPPORT_EVENTUALLY_H_
#define MILLRACE_TEST_SUPPORT_EVENTUALLY_H_

#include <chrono>
#include <functional>
#include <thread>

namespace millrace::test {

// Whether `condition` becomes true within five minutes. This limit far exceeds every expected
// duration, even on a loaded machine under a sanitizer.
inline bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 60000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_EVENTUALLY_H_
