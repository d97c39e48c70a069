#include "segment/staleness_watch.h"

#include <gtest/gtest.h>

#include "test/support/support.h"

namespace millrace {
namespace {

constexpr int64_t kStep = StalenessWatch::kStepNs;

// The counters of a segment, advanced one second at a time.
class Watched {
 public:
  explicit Watched(const std::string& remedies = {}) : watch_(remedies) {
    watch_.Update(0, counts_);
  }
  // Advances by one second; returns whether the watch warns.
  bool Second(uint64_t iterations, double sweeps, uint64_t diffs, uint64_t damped) {
    counts_.iterations += iterations;
    counts_.sweeps += sweeps;
    counts_.diffs += diffs;
    counts_.damped += damped;
    now_ns_ += kStep;
    return watch_.Update(now_ns_, counts_);
  }
  StalenessWatch& watch() { return watch_; }
  StalenessCounts& counts() { return counts_; }
  int64_t now_ns() const { return now_ns_; }

 private:
  StalenessWatch watch_;
  StalenessCounts counts_;
  int64_t now_ns_ = 0;
};

TEST(StalenessWatch, WarnsOnceAfterSecondsInWhichMostDiffsWereDamped) {
  Watched segment;
  for (int i = 1; i < StalenessWatch::kWarnAfter; ++i) {
    EXPECT_FALSE(segment.Second(100, 2, 50, 26)) << i;
  }
  EXPECT_TRUE(segment.Second(100, 2, 50, 26));
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(segment.Second(100, 2, 50, 50));
}

TEST(StalenessWatch, DoesNotWarnOfWhatPasses) {
  Watched segment;
  for (int i = 0; i < 100; ++i) {
    const bool fresh = i % StalenessWatch::kWarnAfter == 0;
    EXPECT_FALSE(segment.Second(100, 2, 50, fresh ? 25 : 50)) << i;
  }
}

// Iterations of microseconds: between two exchanges there are many calls, each of which could end a
// window.
TEST(StalenessEstimate, CountsTheIterationsBetweenExchangesHoweverOftenItIsCalled) {
  for (const int calls : {1, 5, 50, 500}) {
    StalenessEstimate estimate;
    uint64_t iterations = 0;
    for (int sweeps = 1; sweeps < 100; ++sweeps) {
      for (int i = 0; i < calls; ++i) {
        estimate.Update(iterations += 100, sweeps);
        if (sweeps < 10) continue;
        EXPECT_GT(estimate.iterations(), 0.45 * calls * 100) << calls << ' ' << i;
        EXPECT_LT(estimate.iterations(), 2 * calls * 100) << calls << ' ' << i;
      }
    }
  }
}

TEST(StalenessEstimate, RisesWhileNothingIsExchanged) {
  StalenessEstimate estimate;
  for (int i = 0; i < 10; ++i) estimate.Update(100 * i, i);
  EXPECT_NEAR(estimate.iterations(), 100, 1);
  double before = estimate.iterations();
  for (uint64_t i = 10; i < 1000; ++i) {
    estimate.Update(100 * i, 9);
    EXPECT_GT(estimate.iterations(), before);
    before = estimate.iterations();
  }
  EXPECT_LE(before, 100'000);
}

// Without training: during tests, and at the end of a run, when all remaining progress is sent.
TEST(StalenessWatch, CountsSecondsOfTrainingAlone) {
  Watched segment;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(segment.Second(0, 1, 50, 50));
  for (int i = 1; i < StalenessWatch::kWarnAfter; ++i) {
    EXPECT_FALSE(segment.Second(100, 2, 50, 50));
    EXPECT_FALSE(segment.Second(0, 0, 0, 0));
    EXPECT_FALSE(segment.Second(100, 0, 0, 0));  // no diff that could have been damped
  }
  EXPECT_TRUE(segment.Second(100, 2, 50, 50));
}

TEST(StalenessWatch, LooksOnceASecond) {
  Watched segment;
  segment.counts() = {100, 1, 50, 50};
  for (int i = 1; i < 20; ++i) {
    EXPECT_FALSE(segment.watch().Update(i * kStep / 20, segment.counts()));
  }
  segment.watch().Update(kStep, segment.counts());
  EXPECT_EQ(segment.watch().iterations(), 100);
}

TEST(StalenessEstimate, IsKnownAfterTheFirstWindowAndFollowsChanges) {
  constexpr uint64_t kWindow = StalenessEstimate::kWindow;
  StalenessEstimate estimate;
  estimate.Update(1000, 7);  // a node that joins
  for (uint64_t i = 1; i < kWindow; ++i) {
    estimate.Update(1000 + i, 7 + static_cast<double>(i) / 4);
    EXPECT_EQ(estimate.iterations(), 0);
  }
  estimate.Update(1000 + kWindow, 7 + static_cast<double>(kWindow) / 4);
  EXPECT_DOUBLE_EQ(estimate.iterations(), 4);
  for (uint64_t i = 1; i <= 10 * kWindow; ++i) {
    estimate.Update(1000 + kWindow + i,
                    7 + static_cast<double>(kWindow) / 4 + static_cast<double>(i) / 32);
  }
  EXPECT_NEAR(estimate.iterations(), 32, 0.5);
}

TEST(StalenessWatch, SaysHowManyIterationsLieBetweenTwoExchanges) {
  Watched segment;
  for (int i = 0; i < 10; ++i) segment.Second(200, 4, 1, 0);
  EXPECT_NEAR(segment.watch().iterations(), 50, 1e-9);
  EXPECT_CONTAINS(segment.watch().Warning(), "about 50 iterations of the cluster lie between");
  // Seconds without a sweep count as time between two sweeps.
  for (int i = 0; i < 20; ++i) {
    segment.Second(100, 0, 1, 0);
    segment.Second(100, 1, 1, 0);
  }
  EXPECT_GT(segment.watch().iterations(), 140);
  EXPECT_LT(segment.watch().iterations(), 260);
  const double last = segment.watch().iterations();
  segment.Second(0, 5, 0, 0);  // no training
  EXPECT_EQ(segment.watch().iterations(), last);
}

TEST(StalenessWatch, BlamesSolversThatMergeSeldomWhereExchangesAreFresh) {
  Watched segment;
  for (int i = 0; i < 10; ++i) segment.Second(200, 100, 50, 50);
  EXPECT_NEAR(segment.watch().iterations(), 2, 1e-9);
  EXPECT_CONTAINS(segment.watch().Warning(), "strategy \"local\"");
}

// The pace limits the segment at the end of `paced` of the stale steps, the link in most passes of
// `full` of them.
std::string WarningOf(int paced, int full) {
  Watched segment;
  for (int i = 0; i < StalenessWatch::kWarnAfter; ++i) {
    segment.counts().paced = i < paced;
    segment.counts().passes += 100;
    segment.counts().full += i < full ? 51 : 49;
    segment.Second(100, 2, 50, 50);
  }
  return segment.watch().Warning();
}

TEST(StalenessWatch, NamesThePaceOrTheLinkWhereThatLimitsTheSegment) {
  const int most = StalenessWatch::kWarnAfter / 2 + 1;
  const std::string paced = WarningOf(most, StalenessWatch::kWarnAfter);
  EXPECT_CONTAINS(paced, "a larger solver_share, pace: \"full\"");
  EXPECT_EQ(paced.find("max_mbps"), std::string::npos) << paced;
  const std::string by_link = WarningOf(most - 1, most);
  EXPECT_CONTAINS(by_link, "a faster link or a higher max_mbps");
  EXPECT_EQ(by_link.find("solver_share"), std::string::npos) << by_link;
}

TEST(StalenessWatch, NamesTheProcessorsWhereTheLinkHasRoom) {
  const int most = StalenessWatch::kWarnAfter / 2 + 1;
  const std::string by_processors = WarningOf(most - 1, most - 1);
  EXPECT_CONTAINS(by_processors, "The link has room; the processors of the nodes");
  EXPECT_EQ(by_processors.find("faster link"), std::string::npos) << by_processors;
}

TEST(StalenessWatch, NamesTheGivenRemediesInPlaceOfThoseOfANetwork) {
  Watched segment("What helps: fewer GPUs");
  for (int i = 0; i < StalenessWatch::kWarnAfter; ++i) {
    segment.counts().paced = true;
    segment.Second(100, 1, 100, 100);
  }
  const std::string warning = segment.watch().Warning();
  EXPECT_CONTAINS(warning, "about 100 iterations of the cluster lie between two exchanges");
  EXPECT_CONTAINS(warning, "What helps: fewer GPUs");
  EXPECT_EQ(warning.find("solver_share"), std::string::npos) << warning;
}

TEST(StalenessWatch, BearsACountThatFalls) {
  Watched segment;
  segment.Second(1000, 10, 5, 0);
  segment.counts().iterations = 3;
  EXPECT_FALSE(segment.watch().Update(segment.now_ns() + kStep, segment.counts()));
  EXPECT_EQ(segment.watch().iterations(), 100);
}

}  // namespace
}  // namespace millrace
