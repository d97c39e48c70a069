// One training of a cluster under faults, and the verdict on it.
#ifndef MILLRACE_TEST_CHAOS_PROGRAM_TRAINING_H_
#define MILLRACE_TEST_CHAOS_PROGRAM_TRAINING_H_

#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "test/chaos/program/injector.h"

namespace millrace::test {

struct TrainingOptions {
  std::string millrace;   // the program
  std::string folder;     // for logs; made anew
  std::string snapshots;  // a file system for each node goes below it; "": none can be made
  uint64_t seed = 0;
  int nodes = 3;
  std::string transport = "udp";
  bool with_key = false;
  int64_t max_iter = 0;
  int64_t snapshot_interval = 0;
  double rate = 0;  // iterations a second that may be expected; of this machine now
  // Iterations that are left when the faults end, in seconds of the best speed.
  double reserve_seconds = 10;
  double fault_seconds = 0;  // 0: it is not disturbed
  int first_kind = 0;        // see PlanOptions
  uint32_t without = 0;
  double least_accuracy = 0;
  const volatile std::sig_atomic_t* interrupted = nullptr;
};

struct TrainingResult {
  std::vector<std::string> failures;
  FaultCounts faults;
  int planned = 0;
  double seconds = 0;      // until the last node has ended
  double accuracy = 0;     // of the saved model, all test images
  int64_t iterations = 0;  // that the nodes count in the end
  double rate = 0;         // of these a second, after the faults
  int starts = 0;          // of processes
  int full_disk_ends = 0;  // of these, ended because there was no room for a snapshot
  double most_rss_mib = 0;
  uint64_t lost = 0, damaged = 0, duplicated = 0, reordered = 0, too_long = 0, cut = 0, forged = 0;
};

// Not thread-safe.
class Training {
 public:
  explicit Training(const TrainingOptions& options);
  ~Training();

  TrainingResult Run();

 private:
  using Clock = std::chrono::steady_clock;

  void WriteFiles();
  void MountSnapshots();
  // Waits until all nodes are in one view; false, and a failure, if that takes too long.
  bool AwaitOneView(const std::string& when);
  bool InOneView() const;
  void InjectFaults();
  // Iterations that a run needs to have left for all nodes to come together before its end.
  int64_t Reserve() const;
  void AwaitEnd();
  // One step of waiting: reaps and looks. False if the training was interrupted.
  bool Step();
  void Reap();
  void JudgeEnd(size_t node, int status);
  void PruneSnapshots();
  void TimeIterations();

  // The verdict.
  void JudgeCounts();
  void JudgeReplicas();
  void JudgeModel();
  void JudgeLogs();
  void JudgeRemains();
  std::vector<std::string> FinalModels() const;

  void Fail(const std::string& what);
  double Now() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  int64_t MostIterations() const;
  // By how many iterations what a node knows of the others' may be behind on a busy machine.
  int64_t UnderWay() const { return static_cast<int64_t>(30 + options_.rate / 4); }
  std::string SnapshotFolder(size_t node) const;

  const TrainingOptions options_;
  Network network_;
  std::optional<BadSwitch> bad_;
  std::ofstream log_;
  std::vector<std::unique_ptr<ChaosNode>> nodes_;
  std::optional<FaultInjector> injector_;
  Clock::time_point begin_ = Clock::now();
  double pruned_ = 0;
  double fastest_ = 0;            // iterations a second, at any time so far
  double timed_ = 0;              // when they were counted last,
  int64_t timed_iterations_ = 0;  // which were so many then
  bool ending_ = false;           // faults are over: a node that ends has come to max_iter
  std::vector<bool> ended_;
  // When all were in one view after the faults: by node, what they had done, and the run's count.
  std::vector<int64_t> own_then_;
  int64_t global_then_ = -1;
  double time_then_ = 0;
  TrainingResult result_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CHAOS_PROGRAM_TRAINING_H_
