#include "collective/thread_group.h"

#include <atomic>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "test/collective/group_threads.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

struct Shape2 {
  int processes, threads;
};

class Group : public testing::TestWithParam<Shape2> {
 protected:
  FakeProcesses all_{GetParam().processes, GetParam().threads};
};

TEST_P(Group, NumbersItsMembersAndNamesOneOfEachProcess) {
  for (int rank = 0; rank < all_.size(); ++rank) {
    EXPECT_EQ(all_.member(rank).rank(), rank);
    EXPECT_EQ(all_.member(rank).size(), all_.size());
    EXPECT_EQ(all_.member(rank).leads_process(), rank % GetParam().threads == 0);
  }
}

// Whole numbers, so that sums are exact in any order.
TEST_P(Group, SumsEveryArrayOfEveryRound) {
  const int n = all_.size();
  const float ranks = static_cast<float>(n * (n - 1) / 2);
  std::atomic<int> wrong{0};
  all_.Run([&](Collective& member) {
    const auto rank = static_cast<float>(member.rank());
    for (int round = 0; round < 60; ++round) {
      std::vector<std::vector<float>> arrays;
      for (int i = 0; i < 1 + round % 4; ++i) {
        arrays.emplace_back(100 * i + 1, rank + static_cast<float>(round));
      }
      for (auto& array : arrays) {
        member.StartSum(array);
        member.Poll();
      }
      member.Wait();
      for (const auto& array : arrays) {
        for (const float value : array) {
          wrong += value != ranks + static_cast<float>(n * round);
        }
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Group, GivesResultsToThoseThatWantThem) {
  const int n = all_.size();
  std::atomic<int> wrong{0};
  all_.Run([&](Collective& member) {
    for (int round = 0; round < 20; ++round) {
      std::vector<float> large(1000, 1), small(2, 3);
      member.StartSum(large, member.leads_process());
      member.StartSum(small);
      member.Wait();
      if (member.leads_process()) wrong += large != std::vector<float>(1000, static_cast<float>(n));
      wrong += small != std::vector<float>(2, static_cast<float>(3 * n));
    }
  });
  EXPECT_EQ(wrong, 0);
}

// The order of additions does not depend on the order in which the threads come.
TEST_P(Group, SumsAreTheSameInEveryRunToTheLastBit) {
  std::vector<float> first;
  for (int run = 0; run < 10; ++run) {
    std::vector<float> sum;
    all_.Run([&](Collective& member) {
      std::vector<float> values(257);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = 1 / static_cast<float>(1 + i + 3 * member.rank());
      }
      member.Sum(values);
      if (member.rank() == 0) sum = values;
    });
    if (run == 0) first = sum;
    EXPECT_EQ(sum, first);
  }
}

TEST_P(Group, BroadcastsWhatRankZeroHas) {
  std::atomic<int> wrong{0};
  all_.Run([&](Collective& member) {
    for (int round = 0; round < 20; ++round) {
      std::vector<int> values(50, 100 * member.rank() + round);
      member.Broadcast(std::as_writable_bytes(std::span(values)));
      wrong += values != std::vector<int>(50, round);
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Group, FailsAsAWholeIfAMemberFails) {
  const int last = all_.size() - 1;
  if (last == 0) return;
  std::atomic<int> told{0};
  const std::string error = ErrorOf([&] {
    all_.Run([&](Collective& member) {
      std::vector<float> values(10, 1);
      for (int round = 0; round < 5; ++round) {
        if (member.rank() == last && round == 3) throw Error("solver ", last, " has failed");
        try {
          member.Sum(values);
        } catch (const Error& other) {
          told += other.what() == StrCat("solver ", last, " has failed");
          throw;
        }
      }
    });
  });
  EXPECT_EQ(error, StrCat("solver ", last, " has failed"));
  EXPECT_EQ(told, last);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Group,
                         testing::Values(Shape2{1, 1}, Shape2{1, 2}, Shape2{1, 7}, Shape2{3, 1},
                                         Shape2{2, 3}));

TEST(GroupTest, RefusesSumsOfDifferentSizes) {
  FakeProcesses all(1, 2);
  EXPECT_CONTAINS(ErrorOf([&] {
                    all.Run([](Collective& member) {
                      std::vector<float> values(5 + member.rank());
                      member.Sum(values);
                    });
                  }),
                  "values, expected equal numbers");
}

}  // namespace
}  // namespace millrace::test
