// Durations counted by size, so that a percentile of very many takes little memory: four
// buckets a power of two, from 256 ns to about 275 s. What is shorter or longer counts
// as that.
#ifndef MILLRACE_BASE_DURATION_HISTOGRAM_H_
#define MILLRACE_BASE_DURATION_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/count.h"

namespace millrace {

// A value: copied, added and subtracted.
class DurationHistogram {
 public:
  static constexpr size_t kBuckets = 116;

  static size_t BucketOf(int64_t ns) {
    const uint64_t units = ns > 0 ? static_cast<uint64_t>(ns) >> kUnitBits : 0;
    if (units < 4) return units;
    const int octave = std::bit_width(units) - 3;  // of which units >> octave is 4 to 7
    const size_t bucket = static_cast<size_t>(4 * octave) + (units >> octave);
    return std::min(bucket, kBuckets - 1);
  }
  // The first duration, ns, of a bucket; of kBuckets: where the last one ends.
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
  // The middle of the bucket that holds the duration, ns, which a part `q` (0 to 1) of all
  // do not exceed: right to within an eighth, or 128 ns. 0 if there are none.
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
  // `earlier` is an earlier reading of the same durations.
  DurationHistogram& operator-=(const DurationHistogram& earlier) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] -= earlier.counts_[i];
    return *this;
  }

 private:
  friend class DurationCount;
  static constexpr int kUnitBits = 8;

  std::array<uint64_t, kBuckets> counts_{};
};

// One that one thread writes and any thread reads at any time.
class DurationCount {
 public:
  void Add(int64_t ns) { counts_[DurationHistogram::BucketOf(ns)].Add(); }
  DurationHistogram Read() const {
    DurationHistogram histogram;
    for (size_t i = 0; i < counts_.size(); ++i) histogram.counts_[i] = counts_[i].Read();
    return histogram;
  }

 private:
  std::array<Count, DurationHistogram::kBuckets> counts_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_DURATION_HISTOGRAM_H_
