// Teams of threads give the results of one thread.
#include "device/team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "test/support/support.h"
#include "test/support/threaded_lanes.h"

namespace millrace::test {
namespace {

// The threads of a block of 8, as Team takes them.
struct Threads : ThreadedLanes<4, 2> {
  using ThreadedLanes::ThreadedLanes;
  static constexpr uint32_t kThreads = kWarp * kWarps;
};

// Runs body(team) on 8 threads.
template <typename Body>
void RunTeam(Body body) {
  TeamArea<Threads::kThreads> area;
  RunThreaded<Threads>([&](const Threads& threads) {
    Team<Threads> team(&area, threads);
    body(team);
  });
}

class TeamTest : public testing::TestWithParam<int> {
 protected:
  TeamTest() {
    Rng rng(Seed(), {static_cast<uint64_t>(GetParam())});
    for (float& value : values_) value = rng.Gaussian();
  }
  int64_t count() const { return static_cast<int64_t>(values_.size()); }

  std::vector<float> values_ = std::vector<float>(GetParam());
};

TEST_P(TeamTest, SumsOnAllThreads) {
  double expected = 0;
  for (const float value : values_) expected += value;
  RunTeam([&](Team<Threads>& team) {
    for (int again = 0; again < 3; ++again) {
      EXPECT_NEAR(team.Sum(count(), [&](int64_t i) { return values_[i]; }), expected, 1e-9);
    }
  });
}

TEST_P(TeamTest, FindsTheLargestOnAllThreads) {
  const float expected = *std::max_element(values_.begin(), values_.end());
  RunTeam([&](Team<Threads>& team) {
    EXPECT_EQ(team.Max(count(), [&](int64_t i) { return values_[i]; }), expected);
  });
}

TEST_P(TeamTest, KeepsNaN) {
  values_[values_.size() / 2] = std::numeric_limits<float>::quiet_NaN();
  RunTeam([&](Team<Threads>& team) {
    EXPECT_TRUE(std::isnan(team.Max(count(), [&](int64_t i) { return values_[i]; })));
  });
}

// A missing barrier is a race that the thread sanitizer finds.
TEST_P(TeamTest, SeesWhatTheStepBeforeWrote) {
  std::vector<float> doubled(count()), reversed(count());
  float first = 0;
  RunTeam([&](Team<Threads>& team) {
    team.ForEach(count(), [&](int64_t i) { doubled[i] = 2 * values_[i]; });
    team.Once([&] { first = doubled[count() - 1]; });
    team.ForEach(count(), [&](int64_t i) { reversed[i] = doubled[count() - 1 - i] + first; });
  });
  for (int64_t i = 0; i < count(); ++i) {
    EXPECT_EQ(reversed[i], 2 * values_[count() - 1 - i] + 2 * values_[count() - 1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, TeamTest, testing::Values(1, 3, 8, 9, 100));

TEST(SerialTeam, IsATeamOfOne) {
  TeamArea<SerialLanes::kThreads> area;
  Team<SerialLanes> team(&area, SerialLanes{});
  const std::vector<float> values = {1, -2, 4};
  EXPECT_EQ(team.Sum(3, [&](int64_t i) { return values[i]; }), 3);
  EXPECT_EQ(team.Max(3, [&](int64_t i) { return values[i]; }), 4);
  int calls = 0;
  team.ForEach(3, [&](int64_t i) { calls += static_cast<int>(i) + 1; });
  team.Once([&] { calls *= 2; });
  EXPECT_EQ(calls, 12);
}

}  // namespace
}  // namespace millrace::test
