// Writes the snapshots of a run. One that cannot be written (a full disk, a folder that is gone)
// does not end the training: it costs a warning, is kept, and is tried again.
#ifndef MILLRACE_TRAIN_SNAPSHOT_WRITER_H_
#define MILLRACE_TRAIN_SNAPSHOT_WRITER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "solver/snapshot.h"

namespace millrace {

// Thread-safe. At most one snapshot is kept, the newest that could not be written: memory for a
// copy of the weights and the histories.
class SnapshotWriter {
 public:
  // Before a snapshot is tried again: this long, twice as long after each failure in a row.
  static constexpr int64_t kRetryNs = 5'000'000'000, kMostRetryNs = 320'000'000'000;
  // Pauses before the last snapshot of a run is tried again; then it counts as lost.
  static constexpr int kLastPausesMs[] = {1000, 2000, 4000};

  // `node`: of the cluster, which keeps a part of its own of each snapshot; "" without a cluster.
  // `clock` outlives this object. `wrote_model` is told of each model that has been written.
  SnapshotWriter(std::string prefix, std::string node, const Clock* clock,
                 std::function<void(int64_t iteration)> wrote_model);

  // Writes the snapshot; without a model, only the node's part.
  void Write(Snapshot snapshot);
  // Tries again to write what is kept, if it is time. One atomic load otherwise.
  void Poll();

  // The run has ended at `iteration`, with `last` or what is kept as its last snapshot. Tries to
  // write it, and again after each pause for as long as `pause(ms)` returns true. Throws Error
  // naming file and reason if it cannot be written. What is kept of an earlier iteration is tried
  // once.
  void Finish(int64_t iteration, std::optional<Snapshot> last,
              const std::function<bool(int ms)>& pause);

  // Attempts that have failed.
  uint64_t failures() const { return failures_; }

 private:
  // A snapshot and what of it is still to be written.
  struct Job {
    Snapshot snapshot;
    bool model = false, state = false, part = false;
  };

  Job JobOf(Snapshot snapshot) const;
  // Throws Error; what has been written is not written again.
  void WriteParts(Job* job) const;
  // Writes it, or else warns and keeps it.
  void Try(Job job);
  void Keep(Job job, const std::string& why);
  std::optional<Job> TakeKept();

  const std::string prefix_, node_;
  const Clock& clock_;
  const std::function<void(int64_t)> wrote_model_;
  std::atomic<uint64_t> failures_{0};
  std::atomic<int64_t> retry_ns_{INT64_MAX};  // when what is kept is due; INT64_MAX: nothing is
  std::mutex mutex_;                          // of what follows; not held while writing
  std::optional<Job> kept_;
  int64_t pause_ns_ = kRetryNs;  // after the next failure
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_SNAPSHOT_WRITER_H_
