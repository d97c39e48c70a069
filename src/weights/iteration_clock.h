// Iteration clock: counts the iterations of all solvers of a run together, on this machine and on
// others. Schedules (learning rate, tests, snapshots, the end) follow this clock, so N solvers
// follow the schedule of a single solver.
//
//   const int slot = clock.RegisterSolver();
//   while (auto iteration = clock.Claim(max_iter)) {
//     ... train that iteration ...
//     clock.Done(slot);
//   }
//   clock.ReleaseSolver(slot);
//
// Thread-safe and lock-free, also between processes that share the memory.
#ifndef MILLRACE_WEIGHTS_ITERATION_CLOCK_H_
#define MILLRACE_WEIGHTS_ITERATION_CLOCK_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "weights/shm_file.h"

namespace millrace::inline weights {

class IterationClock {
 public:
  // A clock in private memory, at iteration 0.
  IterationClock();
  // A clock in the header of a weight buffer; `header` must outlive it. `owner` marks the slots
  // that this process registers: its index in the process table + 1.
  IterationClock(ShmHeader* header, uint32_t owner);
  ~IterationClock();
  IterationClock(const IterationClock&) = delete;
  IterationClock& operator=(const IterationClock&) = delete;

  // Resets the clock to `iteration` (>= 0), with no iteration claimed or done beyond it. Call this
  // while preparing a run, before any solver claims.
  void StartAt(int64_t iteration);

  // Claims the next unclaimed iteration; nullopt if it is not below `limit`. Each number is handed
  // out exactly once. If its solver dies before Done(), the iteration is lost: it is not handed out
  // again, and global() stays one behind.
  std::optional<int64_t> Claim(int64_t limit);

  // Allocates a counter for one solver thread and returns its index. Throws Error if all
  // kMaxSolvers are taken. The counters of processes that died are freed when another process
  // attaches.
  int RegisterSolver();
  // Counts `iterations` (>= 0) completed by solvers of other machines. As many consecutive numbers
  // are withdrawn from Claim() on this machine; returns the first of them.
  int64_t TakeRemote(int64_t iterations);

  // Counts one completed iteration of the solver.
  void Done(int slot);
  // Records how many of the solver's latest iterations the shared weights lack, because the solver
  // trains on weights of its own. Call it before the Done() of the last of them, and after a merge.
  void SetUnmerged(int slot, int64_t iterations);
  // Frees the counter. The iterations that it has counted remain part of global().
  void ReleaseSolver(int slot);

  // Iterations completed by all solvers, including those before start() and those of other
  // machines.
  int64_t global() const;
  // Iterations completed since start() by the solvers that share this clock.
  int64_t own() const;
  // The iterations of own() whose progress is not in the shared weights yet. Read own() first.
  int64_t unmerged() const;
  // Number of registered solvers, over all processes.
  int solvers() const;
  // The next number that Claim() would hand out: global() plus the iterations in progress or lost.
  int64_t claimed() const;
  // Iteration at which this run began: that of the snapshot from which it continues, or 0.
  int64_t start() const;

 private:
  const std::unique_ptr<ShmHeader> own_;
  ShmHeader* const header_;
  const uint32_t owner_;
};

// Frees the counters of `owner`, whose process has ended.
void ReleaseSolversOf(ShmHeader* header, uint32_t owner);

}  // namespace millrace::inline weights

#endif  // MILLRACE_WEIGHTS_ITERATION_CLOCK_H_
