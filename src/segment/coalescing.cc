#include "segment/coalescing.h"

#include <glog/logging.h>

#include <algorithm>

namespace millrace::inline segment {
namespace {

constexpr double kShare = 1.0 / 16;  // of the interval between iterations
// Weight of a new interval in the smoothed one.
constexpr double kIntervalSmoothing = 1.0 / 4;

}  // namespace

Coalescing::Coalescing(const CoalescingLimits& limits) : limits_(limits) {
  CHECK(0 <= limits.min_ns && limits.min_ns <= limits.max_ns);
}

int64_t Coalescing::Ns(int64_t now_ns, uint64_t iterations) {
  if (counted_at_ == 0) {
    counted_ = iterations;
    counted_at_ = now_ns;
  }
  if (iterations > counted_) {
    const double interval =
        static_cast<double>(now_ns - counted_at_) / static_cast<double>(iterations - counted_);
    interval_ns_ =
        interval_ns_ > 0 ? interval_ns_ + kIntervalSmoothing * (interval - interval_ns_) : interval;
    counted_ = iterations;
    counted_at_ = now_ns;
  }
  const auto most = static_cast<double>(limits_.max_ns);
  return std::max(static_cast<int64_t>(std::min(interval_ns_ * kShare, most)), limits_.min_ns);
}

}  // namespace millrace::inline segment
