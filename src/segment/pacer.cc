#include "segment/pacer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace millrace::inline segment {

Pacer::Pacer(double bytes_per_second, double burst_bytes)
    : rate_(bytes_per_second), burst_(burst_bytes), level_(burst_bytes) {
  // This form of the condition also rejects NaN.
  if (!(rate_ >= 0 && std::isfinite(rate_))) {
    throw Error("max_mbps: ", rate_, " bytes/s: expected 0 (no limit) or more");
  }
}

double Pacer::Available(int64_t now_ns) {
  if (!limited()) return std::numeric_limits<double>::infinity();
  if (started_) {
    const double seconds = static_cast<double>(now_ns - filled_at_) * 1e-9;
    level_ = std::min(burst_, level_ + seconds * rate_);
  }
  started_ = true;
  filled_at_ = now_ns;
  return std::max(level_, 0.0);
}

int64_t Pacer::ReadyNs(double bytes) const {
  if (!limited() || level_ >= bytes) return filled_at_;
  return filled_at_ + static_cast<int64_t>(std::ceil((bytes - level_) / rate_ * 1e9));
}

}  // namespace millrace::inline segment
