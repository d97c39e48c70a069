#include "metrics/recent_rate.h"

namespace millrace::inline metrics {

void RecentRate::Add(int64_t count) {
  const double now = clock_->NowSeconds();
  if (!samples_.empty() && count < samples_.back().count) samples_.clear();
  // One sample per hundredth of the window is enough.
  const bool close =
      samples_.size() > 1 && now - samples_[samples_.size() - 2].seconds < window_seconds_ / 100;
  if (close) samples_.pop_back();
  samples_.push_back({now, count});
  while (samples_.size() > 2 && samples_[1].seconds <= now - window_seconds_) {
    samples_.pop_front();
  }
}

std::optional<double> RecentRate::PerSecond() const {
  if (samples_.size() < 2) return std::nullopt;
  const double seconds = samples_.back().seconds - samples_.front().seconds;
  if (!(seconds > 0)) return std::nullopt;
  return static_cast<double>(samples_.back().count - samples_.front().count) / seconds;
}

}  // namespace millrace::inline metrics
