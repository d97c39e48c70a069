// Writes the snapshots of a run. If a snapshot cannot be written (disk full, missing folder),
// training continues: the writer logs a warning, keeps the snapshot, and retries.
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

namespace millrace::inline train {

// Thread-safe. Keeps at most one snapshot, the newest that could not be written; its memory is a
// copy of the weights and the histories.
class SnapshotWriter {
 public:
  // Pause before a retry: kRetryNs, doubled after each consecutive failure, at most kMaxRetryNs.
  static constexpr int64_t kRetryNs = 5'000'000'000, kMaxRetryNs = 320'000'000'000;
  // Pauses between attempts for the last snapshot of a run; after the last attempt it is lost.
  static constexpr int kLastPausesMs[] = {1000, 2000, 4000};

  // `state`: the .solverstate.
  using WroteModel = std::function<void(int64_t iteration, const std::string& state)>;

  // `node`: name of this node, which adds its own part to each snapshot; "" without a cluster.
  // `clock` outlives this object. `wrote_model` is called after the model and state of an iteration
  // have been written.
  SnapshotWriter(std::string prefix, std::string node, const Clock* clock,
                 WroteModel wrote_model);

  // Writes a snapshot. If it has no model, writes only the node's part.
  void Write(Snapshot snapshot);
  // Retries the kept snapshot if its pause has passed. One atomic load otherwise.
  void Poll();

  // Writes the final snapshot of a run that ended at `iteration`: `last`, else a kept snapshot of
  // that iteration. Retries after each of kLastPausesMs while `pause(ms)` returns true. Throws
  // Error with file and reason if it cannot be written. A kept snapshot of an earlier iteration is
  // tried once more.
  void Finish(int64_t iteration, std::optional<Snapshot> last,
              const std::function<bool(int ms)>& pause);

  // Failed attempts.
  uint64_t failures() const { return failures_; }

 private:
  // A snapshot, and the files of it that remain to be written.
  struct Job {
    Snapshot snapshot;
    bool model = false, state = false, part = false;
  };

  Job JobOf(Snapshot snapshot) const;
  // Writes the remaining files, and marks each as written. Throws Error.
  void WriteParts(Job* job) const;
  // Writes the snapshot; on failure logs a warning and keeps it.
  void Try(Job job);
  void Keep(Job job, const std::string& why);
  std::optional<Job> TakeKept();

  const std::string prefix_, node_;
  const Clock& clock_;
  const WroteModel wrote_model_;
  std::atomic<uint64_t> failures_{0};
  std::atomic<int64_t> retry_ns_{INT64_MAX};  // when the kept snapshot is due; INT64_MAX: none
  std::mutex mutex_;                          // guards the members below; not held while writing
  std::optional<Job> kept_;
  int64_t pause_ns_ = kRetryNs;  // pause after the next failure
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_SNAPSHOT_WRITER_H_
