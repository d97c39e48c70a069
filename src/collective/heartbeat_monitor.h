// Which processes of a run have failed or fallen silent, judged by heartbeats: short messages that
// each process sends to all others, also while it tests or saves.
//
// Silence is counted in the heartbeats that this process has sent itself, not in time. A process
// that has been suspended thus does not take its own pause for the silence of the others.
#ifndef MILLRACE_COLLECTIVE_HEARTBEAT_MONITOR_H_
#define MILLRACE_COLLECTIVE_HEARTBEAT_MONITOR_H_

#include <string>
#include <vector>

#include "base/error.h"

namespace millrace::inline collective {

// Pure logic. Not thread-safe.
class HeartbeatMonitor {
 public:
  // `own`: this process among `size`. A process is lost after `limit` heartbeats of this one
  // without any of its own, which is a silence of `seconds`.
  HeartbeatMonitor(int own, int size, int limit, double seconds)
      : own_(own), limit_(limit), seconds_(seconds), silent_(size) {}

  // A heartbeat of process `rank` has arrived.
  void OnHeartbeat(int rank) { silent_[rank] = 0; }
  // Process `rank` says that it has failed.
  void Failed(int rank, const std::string& reason) {
    if (lost_.empty()) lost_ = StrCat("rank ", rank, " has failed: ", OneLine(reason));
  }
  // This process has sent a heartbeat, after it has received all that had arrived.
  void Sent() {
    for (int rank = 0; rank < static_cast<int>(silent_.size()); ++rank) {
      if (rank == own_ || ++silent_[rank] <= limit_ || !lost_.empty()) continue;
      lost_ = StrCat("no heartbeat from rank ", rank, " for ", seconds_,
                     " s: it is stopped, or its machine or network has failed");
    }
  }

  // One line about the first process that was lost; "" if none is.
  const std::string& lost() const { return lost_; }

 private:
  const int own_, limit_;
  const double seconds_;
  std::vector<int> silent_;  // own heartbeats since the last one of each process
  std::string lost_;
};

}  // namespace millrace::inline collective

#endif  // MILLRACE_COLLECTIVE_HEARTBEAT_MONITOR_H_
