#include "base/duration_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using Histogram = DurationHistogram;

TEST(DurationHistogram, HasBucketsWithoutGapsAQuarterOfTheirBeginWide) {
  for (size_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    const int64_t begin = Histogram::BeginOf(bucket), end = Histogram::BeginOf(bucket + 1);
    EXPECT_EQ(Histogram::BucketOf(begin), bucket);
    EXPECT_EQ(Histogram::BucketOf(end - 1), bucket);
    EXPECT_LE(end - begin, std::max<int64_t>(256, begin / 4));
  }
  EXPECT_EQ(Histogram::BucketOf(-5), 0u);
  EXPECT_EQ(Histogram::BucketOf(INT64_MAX), Histogram::kBuckets - 1);
}

TEST(DurationHistogram, TellsPercentilesToWithinAnEighth) {
  Rng rng(test::Seed(), {});
  Histogram histogram;
  DurationCount counted;
  std::vector<int64_t> all;
  for (int i = 0; i < 5000; ++i) {
    all.push_back(static_cast<int64_t>(1000 + rng.Below(uint64_t{1} << (10 + rng.Below(25)))));
    histogram.Add(all.back());
    counted.Add(all.back());
  }
  std::sort(all.begin(), all.end());
  for (const int percent : {1, 10, 50, 90, 99, 100}) {
    const int64_t exact = all[5000 * percent / 100 - 1];
    EXPECT_LE(std::abs(histogram.Quantile(percent / 100.0) - exact), exact / 8) << percent;
    EXPECT_EQ(counted.Read().Quantile(percent / 100.0), histogram.Quantile(percent / 100.0));
  }
}

TEST(DurationHistogram, TellsWhatHasComeSinceAnEarlierReading) {
  Histogram histogram;
  for (int i = 0; i < 100; ++i) histogram.Add(1'000'000);
  const Histogram earlier = histogram;
  histogram.Add(1'000'000'000);
  EXPECT_LT(histogram.Quantile(0.5), 2'000'000);
  histogram -= earlier;
  EXPECT_EQ(histogram.count(), 1u);
  EXPECT_GT(histogram.Quantile(0.5), 800'000'000);
  histogram += earlier;
  EXPECT_EQ(histogram.count(), 101u);
  histogram.Clear();
  EXPECT_EQ(histogram.Quantile(0.5), 0);
}

}  // namespace
}  // namespace millrace
