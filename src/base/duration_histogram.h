// Histogram of durations: percentiles of any number of samples in constant memory. It has four
// buckets per power of two, from 256 ns to about 275 s. Shorter durations count in the first
// bucket, longer ones in the last.
#ifndef MILLRACE_BASE_DURATION_HISTOGRAM_H_
#define MILLRACE_BASE_DURATION_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "millrace/counter.h"

namespace millrace::inline base {

// A value type: copyable, addable and subtractable. Not thread-safe; see DurationCount.
class DurationHistogram {
 public:
  static constexpr size_t kBuckets = 116;

  static size_t BucketOf(int64_t ns) {
    const uint64_t units = ns > 0 ? static_cast<uint64_t>(ns) >> kUnitBits : 0;
    if (units < 4) return units;
    const int octave = std::bit_width(units) - 3;  // chosen so that units >> octave is 4 to 7
    const size_t bucket = static_cast<size_t>(4 * octave) + (units >> octave);
    return std::min(bucket, kBuckets - 1);
  }
  // Lower bound of `bucket` in ns. BeginOf(kBuckets) is the upper bound of the last bucket.
  static int64_t BeginOf(size_t bucket) {
    const uint64_t units = bucket < 4 ? bucket : (4 + bucket % 4) << (bucket / 4 - 1);
    return static_cast<int64_t>(units << kUnitBits);
  }

  void Add(int64_t ns) { ++counts_[BucketOf(ns)]; }
  void Clear() { counts_.fill(0); }
  uint64_t count() const {
    uint64_t sum = 0;
    for (const uint64_t each : counts_) sum += each;
    return sum;
  }
  // The `q`-quantile (0 to 1) in ns, reported as the middle of its bucket. The error is at most one
  // eighth of the value, or 128 ns for small values. 0 if the histogram is empty.
  int64_t Quantile(double q) const {
    const uint64_t all = count();
    const auto rank = static_cast<uint64_t>(std::ceil(q * static_cast<double>(all)));
    uint64_t below = 0;
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
      below += counts_[bucket];
      if (counts_[bucket] > 0 && below >= rank) return (BeginOf(bucket) + BeginOf(bucket + 1)) / 2;
    }
    return 0;
  }
  DurationHistogram& operator+=(const DurationHistogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    return *this;
  }
  // `earlier` is an earlier snapshot of this histogram.
  DurationHistogram& operator-=(const DurationHistogram& earlier) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] -= earlier.counts_[i];
    return *this;
  }

 private:
  friend class DurationCount;
  static constexpr int kUnitBits = 8;

  std::array<uint64_t, kBuckets> counts_{};
};

// Histogram with a single writer thread. Any thread may call Read() at any time.
class DurationCount {
 public:
  void Add(int64_t ns) { counts_[DurationHistogram::BucketOf(ns)].Add(); }
  DurationHistogram Read() const {
    DurationHistogram histogram;
    for (size_t i = 0; i < counts_.size(); ++i) histogram.counts_[i] = counts_[i].Read();
    return histogram;
  }

 private:
  std::array<Counter, DurationHistogram::kBuckets> counts_;
};

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_DURATION_HISTOGRAM_H_
