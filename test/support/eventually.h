// Waiting for what other threads and processes do.
#ifndef MILLRACE_TEST_SUPPORT_EVENTUALLY_H_
#define MILLRACE_TEST_SUPPORT_EVENTUALLY_H_

#include <chrono>
#include <functional>
#include <thread>

namespace millrace::test {

// Whether `condition` comes true within a minute: far beyond what anything here takes, also
// on a loaded machine under a sanitizer.
inline bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 12000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_EVENTUALLY_H_
