#include "control/run_history.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "test/control/fake_run.h"

namespace millrace::test {
namespace {

std::vector<std::string> KindsAfter(const EventLog& log, uint64_t id) {
  std::vector<std::string> kinds;
  for (const RunEvent& event : log.After(id)) kinds.push_back(event.kind);
  return kinds;
}

using Kinds = std::vector<std::string>;

TEST(EventLogTest, FindsWhatHasChanged) {
  EventLog log;
  RunStatus status;
  log.Add(status, "one");
  EXPECT_EQ(KindsAfter(log, 0), Kinds{"state"});
  log.Add(status, "");
  status.iteration = 10;
  status.loss = 1;
  log.Add(status, "");
  EXPECT_EQ(log.last_id(), 1u);
  ++status.tests_done;
  ++status.snapshots_written;
  status.set_learning_rate = 0.5f;
  status.state = RunStatus::State::kPaused;
  log.Add(status, "two");
  EXPECT_EQ(KindsAfter(log, 1), (Kinds{"test", "snapshot", "learning_rate", "state"}));
  EXPECT_EQ(log.After(4).front().data, "two");
  EXPECT_EQ(log.After(4).front().id, 5u);
  EXPECT_TRUE(log.After(5).empty());
  EXPECT_TRUE(log.After(1000).empty());
}

TEST(EventLogTest, KeepsTheLast) {
  EventLog log;
  RunStatus status;
  for (size_t i = 0; i < EventLog::kMaxEvents + 10; ++i) {
    ++status.tests_done;
    log.Add(status, StrCat(i));
  }
  const auto events = log.After(0);
  ASSERT_EQ(events.size(), EventLog::kMaxEvents);
  EXPECT_EQ(events.back().id, log.last_id());
  EXPECT_EQ(events.front().id, log.last_id() - EventLog::kMaxEvents + 1);
}

}  // namespace
}  // namespace millrace::test
