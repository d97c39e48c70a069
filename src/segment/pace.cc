#include "segment/pace.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace millrace::inline segment {
namespace {

// Weight of a new period in smoothed numbers.
constexpr double kPeriodSmoothing = 0.25;
// Maximum factors by which the duty rises and falls in one period.
constexpr double kMaxRise = 1.25, kMaxFall = 0.6;
// Cost of the solver cache contents that the segment evicts, relative to the lost processor time.
// Measured 0.5 to 0.8, by images trained per second of processor time (docs/benchmarks/cluster.md).
constexpr double kCacheCost = 0.6;
// Solvers that use a smaller share of a period are idle and lose nothing.
constexpr double kTrains = 0.02;
// Processor time that the thread can save up by resting, ns.
constexpr double kBurstNs = 1'000'000;
// Up to so many members, averages bear as many iterations of all of them together (RateScale).
constexpr uint32_t kFewMembers = 4;
// The spacing of positions, as a part of the iterations after which exchanges are stale. The rest
// goes by with the diffs that answer a position, and with chunks that are sent later than others.
// With four nodes on two cores, exchanges are 13 to 14 iterations apart, of 14 that are fresh.
constexpr double kSpacing = 0.4;
// Longest time that the thread rests, with pauses, for time that it has used. Without a bound, one
// long pass, such as one after a change of view, would hold it up for hundreds of times as long.
constexpr double kMaxDebtNs = 1'000'000'000;

}  // namespace

Pace::Pace(const PaceConfig& config) : config_(config) { CHECK_GT(config.share, 0); }

void Pace::Update(int64_t now_ns, const PaceCounters& counters) {
  const bool first = due_ns_ == INT64_MIN;
  due_ns_ = now_ns + kPeriodNs;
  const int64_t elapsed = now_ns - updated_ns_;
  updated_ns_ = now_ns;
  const bool counted = counters.solvers.cpu_ns > 0;
  if (counted) uncounted_ = 0;
  if (!counted && counters.solver_threads > 0 && uncounted_ < kUncountedPeriods) ++uncounted_;
  PaceCounters since = counters;
  since.segment_cpu_ns -= last_.segment_cpu_ns;
  since.solvers.cpu_ns -= last_.solvers.cpu_ns;
  since.solvers.waiting_ns -= last_.solvers.waiting_ns;
  since.exchanges -= last_.exchanges;
  since.iterations -= std::min(since.iterations, last_.iterations);
  last_ = counters;
  if (first || elapsed <= 0 || config_.share >= 1) return;
  duty_ = std::clamp(Wanted(elapsed, since), kMinDuty, 1.0);
}

bool Pace::TakeUncounted() {
  if (uncounted_ != kUncountedPeriods) return false;
  ++uncounted_;
  return true;
}

double Pace::Wanted(int64_t elapsed_ns, const PaceCounters& since) {
  const auto solvers = static_cast<double>(since.solvers.cpu_ns);
  const auto waited = static_cast<double>(since.solvers.waiting_ns);
  if (solvers + waited < kTrains * static_cast<double>(elapsed_ns)) {
    taken_ = stale_ = 0;
    spacing_ = 0;
    return 1;
  }
  const double lost = std::min(static_cast<double>(since.segment_cpu_ns), waited);
  const double taken = (1 + kCacheCost) * lost / std::max(solvers + lost, 1.0);
  taken_ += kPeriodSmoothing * (taken - taken_);
  // The square root makes a part of the correction; its effect is measured before the rest is made.
  const double share = std::max(taken, config_.share / 100);
  double factor = std::clamp(std::sqrt(config_.share / share), kMaxFall, kMaxRise);
  // Without an exchange in the period, staleness is at least the period's iterations.
  const auto iterations = static_cast<double>(since.iterations);
  const double stale = iterations / std::max(since.exchanges, 1e-3);
  stale_ += kPeriodSmoothing * (stale - stale_);
  double limit = config_.stale_iterations;
  spacing_ = 0;
  if (config_.stale_own_iterations > 0) {
    limit = std::min(limit, config_.stale_own_iterations * std::max(since.members, kFewMembers));
    if (taken_ > config_.share) spacing_ = static_cast<int64_t>(kSpacing * limit);
  }
  if (stale_ > limit) factor = std::max(factor, std::min(stale_ / limit, kMaxRise));
  return duty_ * factor;
}

int64_t Pace::RestNs(int64_t now_ns, int64_t cpu_ns) {
  const int64_t used = cpu_ns - used_ns_;
  const int64_t elapsed = filled_ns_ == 0 ? 0 : now_ns - filled_ns_;
  used_ns_ = cpu_ns;
  filled_ns_ = now_ns;
  if (duty_ >= 1) {
    level_ns_ = kBurstNs;
    return 0;
  }
  level_ns_ = std::min(level_ns_ + duty_ * static_cast<double>(elapsed), kBurstNs);
  level_ns_ = std::max(level_ns_ - static_cast<double>(used), -duty_ * kMaxDebtNs);
  if (level_ns_ >= 0) return 0;
  return std::min(static_cast<int64_t>(-level_ns_ / duty_), kMaxRestNs);
}

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
