// A clock that the test advances. Thread-safe.
#ifndef MILLRACE_TEST_SUPPORT_FAKE_CLOCK_H_
#define MILLRACE_TEST_SUPPORT_FAKE_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/clock.h"

namespace millrace::test {

class FakeClock : public Clock {
 public:
  FakeClock() = default;
  // Advances by step(n) ns at its n-th reading, counted from 1.
  explicit FakeClock(std::function<int64_t(int n)> step) : step_(std::move(step)) {}

  int64_t NowNs() const override { return step_ ? now_ns_ += step_(++readings_) : now_ns_.load(); }
  void AdvanceNs(int64_t ns) { now_ns_ += ns; }
  void AdvanceSeconds(double seconds) { AdvanceNs(static_cast<int64_t>(seconds * 1e9)); }

 private:
  const std::function<int64_t(int)> step_;
  mutable std::atomic<int> readings_{0};
  mutable std::atomic<int64_t> now_ns_{0};
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_FAKE_CLOCK_H_
