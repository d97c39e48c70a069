// Gathers a snapshot from solvers that never wait for each other. The solver
// that claims the snapshot iteration opens a collection with a copy of the
// weights; each of the others, when it next passes an iteration boundary, leaves
// a copy of its history; whoever completes it gets the snapshot to write. The
// histories are thus those of slightly different moments, as the weights in the
// copy are: Hogwild has no instant at which all solvers agree.
#ifndef MILLRACE_SOLVER_SNAPSHOT_COLLECTOR_H_
#define MILLRACE_SOLVER_SNAPSHOT_COLLECTOR_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "solver/snapshot.h"

namespace millrace {

// Thread-safe. No member waits for another solver or touches the disk.
class SnapshotCollector {
 public:
  // For solvers 0 to `solvers` - 1.
  explicit SnapshotCollector(int solvers);

  // Opens a collection with all of `start` but its histories. At most one stays
  // open: if another one is (some solver has taken very long over an iteration,
  // or tests), the one with the earlier iteration is handed out as it stands,
  // without the histories that it still lacks. An iteration that is open, or was
  // collected before, is not collected again (a request by signal may fall on a
  // scheduled one).
  // Returns what is ready to be written, if anything. Solvers that have all left
  // complete it at once, as at the end of a run.
  std::optional<Snapshot> Open(Snapshot start);

  // Whether `solver` should Deposit now. One atomic load while nothing is open.
  bool Wants(int solver) const;
  // `solver` leaves its history, if it is wanted. Returns a complete snapshot to
  // the last one that was awaited.
  std::optional<Snapshot> Deposit(int solver, History history);
  // As Deposit, by a solver that ends: the history also goes into all
  // collections to come.
  std::optional<Snapshot> Leave(int solver, History history);

 private:
  bool WantsLocked(int solver) const;
  std::optional<Snapshot> Put(int solver, std::shared_ptr<const History> history);
  std::optional<Snapshot> TakeIfComplete();

  mutable std::mutex mutex_;
  std::atomic<bool> any_open_{false};
  std::optional<Snapshot> open_;
  int64_t last_collected_ = -1;                       // iteration
  std::vector<std::shared_ptr<const History>> left_;  // of solvers that have ended
};

}  // namespace millrace

#endif  // MILLRACE_SOLVER_SNAPSHOT_COLLECTOR_H_
