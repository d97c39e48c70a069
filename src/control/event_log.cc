#include "control/event_log.h"

#include <algorithm>

namespace millrace::inline control {
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
