// One training run of a cluster under faults, and the verdict on it.
#ifndef MILLRACE_TEST_CHAOS_PROGRAM_TRAINING_H_
#define MILLRACE_TEST_CHAOS_PROGRAM_TRAINING_H_

#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "test/chaos/program/injector.h"

namespace millrace::test {

struct TrainingOptions {
  std::string millrace;   // path of the program
  std::string folder;     // for logs; recreated
  std::string snapshots;  // parent of one file system per node; "" if none can be mounted
  uint64_t seed = 0;
  int nodes = 3;
  std::string transport = "udp";
  std::string segment;  // further fields of the segment in the topology
  int64_t max_iter = 0;
  int64_t snapshot_interval = 0;
  double rate = 0;  // expected iterations per second on this machine at present
  // Iterations left when the faults end, in seconds at the larger of `rate` and the highest rate
  // seen.
  double reserve_seconds = 10;
  double fault_seconds = 0;  // 0: no faults are injected
  int first_kind = 0;        // see PlanOptions
  uint32_t without = 0;
  double least_accuracy = 0;
  const volatile std::sig_atomic_t* interrupted = nullptr;
};

struct TrainingResult {
  std::vector<std::string> failures;
  FaultCounts faults;
  int planned = 0;
  double seconds = 0;           // until the last node has exited
  double accuracy = 0;          // of the saved model on all test images
  int64_t iterations = 0;       // final count of the nodes
  double rate = 0;              // iterations per second after the faults
  double fault_rate = 0;        // the same during the faults
  double present = 0;           // share of the nodes that were in sync during the faults, mean
  std::vector<JoinTime> joins;  // of processes that were started during the faults
  int starts = 0;               // process starts
  int models_checked = 0;       // intermediate models
  int full_disk_ends = 0;       // processes that exited because a snapshot found no space
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
  // Waits until all nodes are in one view. Returns false if interrupted; also, with a failure
  // recorded, on timeout or if a node ends first.
  bool AwaitOneView(const std::string& when);
  bool InOneView() const;
  void InjectFaults();
  // Iterations that must be left for all nodes to join one view before the run ends.
  int64_t Reserve() const;
  void AwaitEnd();
  // One polling step: reaps processes and reads their state. False if the run was interrupted.
  bool Step();
  void Reap();
  void JudgeEnd(size_t node, int status);
  void PruneSnapshots();
  void CheckWeights(const std::string& model);
  void TimeIterations();
  // The share of the nodes that run and are in sync.
  double Present() const;

  // The verdict.
  void JudgeCounts();
  void JudgeReplicas();
  void JudgeModel();
  void JudgeIntermediateModels();
  double AccuracyOf(const std::string& model, int batches);
  void JudgeLogs();
  void JudgeRemains();
  std::vector<std::string> FinalModels() const;

  void Fail(const std::string& what);
  double Now() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  int64_t MaxIterations() const;
  // Bound on how far a node's count of the others' iterations may lag on a busy machine.
  int64_t UnderWay() const { return static_cast<int64_t>(30 + options_.rate / 4); }
  std::string SnapshotFolder(size_t node) const;
  // Names in /dev/shm that begin with "millrace".
  static std::set<std::string> SharedFiles();

  const TrainingOptions options_;
  const std::set<std::string> shared_before_ = SharedFiles();
  Network network_;
  std::optional<BadSwitch> bad_;
  std::ofstream log_;
  std::vector<std::unique_ptr<ChaosNode>> nodes_;
  std::optional<FaultInjector> injector_;
  Clock::time_point begin_ = Clock::now();
  double pruned_ = 0;
  double fastest_ = 0;            // highest rate so far, iterations per second
  double timed_ = 0;              // time of the last count
  int64_t timed_iterations_ = 0;  // iterations at that time
  bool ending_ = false;           // faults are over: a node that exits has reached max_iter
  std::vector<bool> ended_;
  // State when all nodes were in one view after the faults: own iterations by node, and the run's
  // iterations.
  std::vector<int64_t> own_then_;
  int64_t global_then_ = -1;
  double time_then_ = 0;
  size_t model_weights_ = 0;  // of each model; 0: not known yet
  TrainingResult result_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CHAOS_PROGRAM_TRAINING_H_
