#include "control/run_history.h"

#include <gtest/gtest.h>

#include "test/control/fake_run.h"

namespace millrace::test {
namespace {

TEST(RunHistoryTest, CoversTheWholeRunInFewPoints) {
  RunHistory history;
  RunStatus status = SomeStatus();
  for (int i = 1; i <= 100'000; ++i) {
    status.iteration = i;
    status.seconds = i * 0.1;
    status.loss = 1.0 / i;
    history.Add(status);
  }
  const auto message = history.message();
  const int points = message.iteration_size();
  EXPECT_LE(points, static_cast<int>(RunHistory::kMaxPoints));
  EXPECT_GE(points, static_cast<int>(RunHistory::kMaxPoints / 2));
  ASSERT_EQ(message.loss_size(), points);
  ASSERT_EQ(message.seconds_size(), points);
  EXPECT_EQ(message.iteration(0), 1);
  EXPECT_GT(message.iteration(points - 1), 99'000);
  for (int i = 1; i < points; ++i) {
    EXPECT_GT(message.iteration(i), message.iteration(i - 1));
    EXPECT_DOUBLE_EQ(message.loss(i), 1.0 / message.iteration(i));
  }
}

TEST(RunHistoryTest, HasNoPointBeforeTheFirstIterationOrTwice) {
  RunHistory history;
  RunStatus status;
  history.Add(status);
  EXPECT_EQ(history.message().iteration_size(), 0);
  status.iteration = 1;
  for (int i = 0; i < 10; ++i) {
    status.seconds = i;
    history.Add(status);
  }
  EXPECT_EQ(history.message().iteration_size(), 1);
}

TEST(RunHistoryTest, KeepsTheTests) {
  RunHistory history;
  RunStatus status;
  for (int i = 0; i < 1000; ++i) {
    status.tests = {{.iteration = i, .net = 0, .outputs = {{"accuracy", i / 1000.0}}},
                    {.iteration = i / 2, .net = 1, .outputs = {{"loss", 1}}}};
    status.tests_done = i + 1;
    history.Add(status);
    history.Add(status);
  }
  const auto message = history.message();
  ASSERT_EQ(message.test_size(), static_cast<int>(RunHistory::kMaxPoints));
  int of_net_0 = 0;
  for (const auto& test : message.test()) of_net_0 += test.net() == 0 ? 1 : 0;
  EXPECT_EQ(of_net_0, 400);  // two of three
}

}  // namespace
}  // namespace millrace::test
