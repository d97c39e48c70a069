// How far a run has come, counted by all its solvers together, on this machine and
// on others. Schedules
// (learning rate, tests, snapshots, the end) run on this clock, so N solvers
// follow the schedule that one solver would.
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

#include "weights/shm_header.h"

namespace millrace {

class IterationClock {
 public:
  // A clock in memory of its own, at iteration 0.
  IterationClock();
  // A clock in the header of a weight buffer, which outlives it; `owner` is what
  // registered slots are marked with: this process's index in the table + 1.
  IterationClock(ShmHeader* header, uint32_t owner);
  ~IterationClock();
  IterationClock(const IterationClock&) = delete;
  IterationClock& operator=(const IterationClock&) = delete;

  // Sets the clock back to `iteration` (>= 0): nothing claimed or done beyond
  // it. For whoever prepares a run, before any solver claims.
  void StartAt(int64_t iteration);

  // The next iteration that nobody has claimed yet, if it is below `limit`. Each
  // number is handed out exactly once. One whose solver dies before Done() is
  // lost: it is not handed out again, and global() stays behind by one.
  std::optional<int64_t> Claim(int64_t limit);

  // A counter for one solver thread; throws Error when all kMaxSolvers are
  // taken. The counters of processes that died are free again as soon as
  // another process attaches.
  int RegisterSolver();
  // `iterations` (>= 0) more have been completed by solvers of other machines. The
  // numbers up to so many are nobody's here: returns the first of them, they are
  // consecutive.
  int64_t TakeRemote(int64_t iterations);

  // Counts one iteration of the solver as completed.
  void Done(int slot);
  // Gives the counter back; what it has counted stays in global().
  void ReleaseSolver(int slot);

  // Iterations completed by all solvers, those before the start and those of other
  // machines included.
  int64_t global() const;
  // Iterations completed by the solvers of this clock since its start.
  int64_t own() const;
  // Solvers that are registered, of all processes.
  int solvers() const;
  // The number that Claim would hand out next: global() plus what is being
  // computed right now.
  int64_t claimed() const;
  // Where this run began: the iteration of the snapshot it continues, or 0.
  int64_t start() const;

 private:
  const std::unique_ptr<ShmHeader> own_;
  ShmHeader* const header_;
  const uint32_t owner_;
};

// Frees the counters of `owner`, whose process has gone.
void ReleaseSolversOf(ShmHeader* header, uint32_t owner);

}  // namespace millrace

#endif  // MILLRACE_WEIGHTS_ITERATION_CLOCK_H_
