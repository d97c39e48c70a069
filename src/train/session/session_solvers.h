// The solvers of a session (millrace/session.h): the first computes on the thread that calls the
// session, each of the others on a thread of its own.
#ifndef MILLRACE_TRAIN_SESSION_SESSION_SOLVERS_H_
#define MILLRACE_TRAIN_SESSION_SESSION_SOLVERS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/threads/thread.h"
#include "millrace/device.h"
#include "solver/solver.h"
#include "solver/strategy.h"
#include "train/device_links.h"
#include "train/run_setup.h"

namespace millrace::inline train {

struct SessionSolver {
  int index = 0;             // from 0
  Device* device = nullptr;  // on which it computes
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Solver> solver;

  // Continues with its history in `point`, as Solver::Restore.
  void Restore(const ResumePoint& point);
};

// Not thread-safe.
class SessionSolvers {
 public:
  using Work = std::function<void(SessionSolver*)>;

  // A solver on each of `gpus`, then `on_host` on the host, at least one in all. Starts threads for
  // all but the first. They have no strategies yet: the first work makes these.
  SessionSolvers(const std::vector<Device*>& gpus, int on_host);
  // Ends each solver on its own thread.
  ~SessionSolvers();

  int count() const { return static_cast<int>(all_.size()); }
  SessionSolver& first() { return all_.front(); }
  // The first on the host; null: all are on GPUs.
  SessionSolver* first_on_host() { return gpus_ < count() ? &all_[gpus_] : nullptr; }

  // Calls `work` for all solvers at the same time, and waits for all. Throws the error of the
  // solver that failed first: one that others step with ends their waits (SynchronousStep::Fail).
  void ForEach(const Work& work);
  // Brings all progress into the run's weights.
  void Flush() {
    ForEach([](SessionSolver* each) { each->strategy->Flush(); });
  }

 private:
  // Thread of a solver: does each work once.
  void Loop(SessionSolver* own);
  // Does `work` for `own`.
  static void Do(const Work& work, SessionSolver* own, ErrorSink* errors);

  std::vector<SessionSolver> all_;
  const int gpus_;  // of the first of them
  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  const Work* work_ = nullptr;   // null: the threads end
  ErrorSink* errors_ = nullptr;  // of that work
  uint64_t begins_ = 0;          // works begun, with the end of threads
  int computing_ = 0;            // threads that have not ended the last work
  ErrorSink of_threads_;         // gets nothing, as Do throws nothing
  std::vector<std::unique_ptr<Thread>> threads_;
};

// The GPUs of a session (millrace/session.h): links that keep their replicas of the weights close
// to the host's while solvers compute.
//
// One thread at a time calls it.
class SessionGpus {
 public:
  // `setup` outlives this object.
  explicit SessionGpus(RunSetup* setup);

  // Joins the replicas to the host's, unless they are. Returns when all have its weights.
  // `cluster`: the one that trains the host's replica, which outlives the links; null: none does.
  // Throws Error if a device has failed.
  void Link(Cluster* cluster);
  // Called while no solver computes: brings all progress of the GPUs into the host's replica and
  // ends the links. Throws Error as Link.
  void Unlink();
  // Throws the first error of the links.
  void RethrowIfFailed() const { errors_.RethrowIfFailed(); }

 private:
  // Waits for all links.
  void Await(bool (DeviceLinks::*holds)() const) const;

  RunSetup& setup_;
  const bool linked_;  // StrategyPlan::links_devices
  ErrorSink errors_;
  std::unique_ptr<DeviceLinks> links_;  // null: the replicas are not linked now
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_SESSION_SESSION_SOLVERS_H_
