// Collects a snapshot from solvers that never wait for each other. The solver that takes the
// snapshot iteration opens a collection with a copy of the weights. Each of the others deposits a
// copy of its history at its next iteration boundary. The solver that completes the collection
// receives the snapshot to write. The histories are therefore from slightly different moments, as
// are the weights in the copy: with Hogwild there is no instant at which all solvers agree.
#ifndef MILLRACE_SOLVER_SNAPSHOT_COLLECTOR_H_
#define MILLRACE_SOLVER_SNAPSHOT_COLLECTOR_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "solver/snapshot.h"

namespace millrace::inline solver {

// Thread-safe. No member function waits for another solver or accesses the disk.
class SnapshotCollector {
 public:
  // For solvers 0 to `solvers` - 1.
  explicit SnapshotCollector(int solvers);

  int solvers() const { return static_cast<int>(left_.size()); }

  // Opens a collection with everything in `start` except its histories. At most one collection
  // stays open. If another one is open (because a solver takes very long over an iteration or a
  // test), the one with the earlier iteration is returned as it is, without the missing histories.
  // Does not collect an iteration that is open, or that is not later than a completed one (a
  // request by signal may coincide with a scheduled one). Returns a snapshot that is ready to be
  // written, if any. If all solvers have left, the collection completes at once, as at the end of a
  // run.
  std::optional<Snapshot> Open(Snapshot start);

  // Whether `solver` should call Deposit now. Costs one atomic load while no collection is open.
  bool Wants(int solver) const;
  // Adds the history of `solver`, and its part of the state of the merge rule, if they are needed.
  // Returns the complete snapshot to the last solver.
  std::optional<Snapshot> Deposit(int solver, History history, SolverPart part = {});
  // As Deposit, for a solver that ends: they also become part of all later collections.
  std::optional<Snapshot> Leave(int solver, History history, SolverPart part = {});

 private:
  struct Deposited {
    std::shared_ptr<const History> history;
    std::shared_ptr<const SolverPart> part;
  };

  bool WantsLocked(int solver) const;
  std::optional<Snapshot> Put(int solver, const Deposited& deposited);
  std::optional<Snapshot> TakeIfComplete();

  mutable std::mutex mutex_;
  std::atomic<bool> any_open_{false};
  std::optional<Snapshot> open_;
  int64_t last_collected_ = -1;  // iteration
  std::vector<Deposited> left_;  // of solvers that have ended
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_SNAPSHOT_COLLECTOR_H_
