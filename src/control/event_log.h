// The events of a run: changes of its state, tests, snapshots, changes of the learning rate.
#ifndef MILLRACE_CONTROL_EVENT_LOG_H_
#define MILLRACE_CONTROL_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "millrace/run.h"

namespace millrace::inline control {

struct RunEvent {
  uint64_t id = 0;
  std::string kind = "";  // "state", "test", "snapshot" or "learning_rate"
  std::string data = "";  // JSON of a control_api.Status
};

// The last events, found by comparing one status with the next. Not thread-safe.
class EventLog {
 public:
  static constexpr size_t kMaxEvents = 256;

  // Adds what has changed since the last call, with `json` as data. The first call adds the state.
  void Add(const RunStatus& status, const std::string& json);
  // Those later than `id` that are kept, in order.
  std::vector<RunEvent> After(uint64_t id) const;
  uint64_t last_id() const { return last_id_; }

 private:
  void Append(const char* kind, const std::string& json);

  std::deque<RunEvent> events_;
  uint64_t last_id_ = 0;
  bool has_status_ = false;
  RunStatus last_;
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_EVENT_LOG_H_
