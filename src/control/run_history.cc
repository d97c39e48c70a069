#include "control/run_history.h"

#include <algorithm>

#include "control/run_report.h"

namespace millrace::inline control {

void RunHistory::Add(const RunStatus& status) {
  if (status.tests_done != tests_done_) {
    tests_done_ = status.tests_done;
    for (const RunTest& test : status.tests) {
      const auto same = [&](const RunTest& each) {
        return each.net == test.net && each.iteration == test.iteration;
      };
      if (std::none_of(tests_.begin(), tests_.end(), same)) tests_.push_back(test);
      if (tests_.size() > kMaxPoints) tests_.pop_front();
    }
  }
  if (status.iteration <= 0) return;
  if (!points_.empty() && (status.iteration <= points_.back().iteration ||
                           status.seconds < points_.back().seconds + distance_seconds_)) {
    return;
  }
  points_.push_back({.seconds = status.seconds,
                     .iteration = status.iteration,
                     .loss = status.loss,
                     .learning_rate = status.learning_rate,
                     .iterations_per_second = status.iterations_per_second.value_or(0)});
  if (points_.size() <= kMaxPoints) return;
  for (size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
  points_.resize((points_.size() + 1) / 2);
  distance_seconds_ *= 2;
}

control_api::History RunHistory::message() const {
  control_api::History history;
  for (const Point& point : points_) {
    history.add_seconds(point.seconds);
    history.add_iteration(static_cast<int32_t>(std::min<int64_t>(point.iteration, INT32_MAX)));
    history.add_loss(point.loss);
    history.add_learning_rate(point.learning_rate);
    history.add_iterations_per_second(point.iterations_per_second);
  }
  for (const RunTest& test : tests_) *history.add_test() = TestMessage(test);
  return history;
}

void EventLog::Add(const RunStatus& status, const std::string& json) {
  if (status.tests_done != last_.tests_done) Append("test", json);
  if (status.snapshots_written != last_.snapshots_written) Append("snapshot", json);
  if (status.set_learning_rate != last_.set_learning_rate) Append("learning_rate", json);
  if (!has_status_ || status.state != last_.state) Append("state", json);
  has_status_ = true;
  last_ = status;
}

std::vector<RunEvent> EventLog::After(uint64_t id) const {
  const auto is_later = [id](const RunEvent& event) { return event.id > id; };
  return {std::find_if(events_.begin(), events_.end(), is_later), events_.end()};
}

void EventLog::Append(const char* kind, const std::string& json) {
  events_.push_back({++last_id_, kind, json});
  if (events_.size() > kMaxEvents) events_.pop_front();
}

}  // namespace millrace::inline control
