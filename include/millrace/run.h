// A training run in the background, as `millrace train` makes it, that a program watches and
// controls.
//
//   auto run = millrace::Run::Start({.solver_file = "solver.prototxt", .cpus = 2});
//   while (!run->WaitFor(1)) std::cout << run->status().iteration << "\n";
//   const millrace::RunResult result = run->Wait();
//
// Use a session (millrace/session.h) to step a solver from a loop of your own.
#ifndef MILLRACE_RUN_H_
#define MILLRACE_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "millrace/export.h"
#include "millrace/session.h"

namespace millrace {

class MetricsRegistry;

struct RunOptions {
  std::string solver_file = "";
  // Solver threads on CPUs that share the weights. None: with GPUs 0, else the topology's value or
  // 1.
  std::optional<int> cpus = {};
  // GPUs, each with a solver of its own, as --gpu of `millrace train`: "0,2" or "all"; "": those of
  // the solver file.
  std::string gpus = "";
  std::string precision = "auto";  // of GPUs: "auto", "fp32", "tf32" or "bf16", as --precision
  std::vector<std::string> weights = {};  // .caffemodel files to start from
  std::string snapshot = "";              // .solverstate to continue; excludes `weights`
  std::string metrics_file = "";          // appended to, as JSON lines; "": none
  std::string tensorboard = "";           // folder of event files for TensorBoard; "": none
  std::string topology = "";              // path of a topology file; "": no cluster
  std::string node = "";                  // this node's name there; "": chosen by rank
  // Gets the metrics of the run, is published, and outlives it. Null: the run's own.
  MetricsRegistry* metrics = nullptr;
  // Nodes join and leave by a registry, as SessionOptions.rendezvous and nodes. The run waits for
  // the registry until it is stopped.
  std::string rendezvous = "", nodes = "";
};

// The last test of a test net.
struct RunTest {
  int64_t iteration = 0;
  int net = 0;  // index in the solver file
  std::vector<TestOutput> outputs;
};

struct RunStatus {
  enum class State {
    kStarting,  // reads files, fills weights, joins the cluster
    kTraining,
    kPaused,
    kStopping,  // is to end: a command, or the schedule's end; saves and tests
    kEnded,
  };
  State state = State::kStarting;
  // This process's node and its cluster, once the node is known; "": none.
  std::string node, cluster;
  int64_t iteration = 0;      // completed, by all nodes
  int64_t max_iteration = 0;  // 0: not known yet
  double loss = 0;            // smoothed
  float learning_rate = 0;    // of the last iteration
  // That SetLearningRate has set; 0: none.
  float set_learning_rate = 0;
  double seconds = 0;  // since training began
  // Over the last 10 s; none before two iterations of this process.
  std::optional<double> iterations_per_second;
  double images_per_iteration = 0;   // of one solver
  std::vector<RunTest> tests;        // the last of each test net, by net
  int64_t tests_done = 0;            // of a test net each, by this process
  int64_t snapshots_written = 0;     // by this process
  int64_t snapshot_iteration = -1;   // of the last snapshot of the model here; -1: none
  std::string snapshot;              // its .solverstate
  double snapshot_unix_seconds = 0;  // when it was written
};

// "starting", "training", "paused", "stopping" or "ended".
MILLRACE_API const char* NameOf(RunStatus::State state);

struct RunResult {
  int64_t iteration = 0;       // global, at the end
  bool stopped_early = false;  // by Stop or a stop condition
  float loss = 0;              // smoothed
  std::vector<RunTest> tests;  // the last tests, if one was due at the end
  std::string model, state;    // files of the final snapshot; "": none
};

// A run as its program and the control service see it. Thread-safe, except for destruction. The
// functions that ask for something return at once; the run's solvers notice between two iterations.
class MILLRACE_API RunHandle {
 public:
  virtual ~RunHandle() = default;

  virtual RunStatus status() const = 0;

  // Solvers begin no further iteration until Resume. The cluster's other nodes go on; at the end
  // they wait for this one as for a node whose iteration takes that long.
  virtual void Pause() = 0;
  virtual void Resume() = 0;
  // Writes a snapshot, also during a pause.
  virtual void Snapshot() = 0;
  // Runs all test nets of the solver file, also during a pause; in a cluster, on the merged
  // weights.
  virtual void Test() = 0;
  // Replaces the learning rate of the solver file, of this process's solvers, until the run ends or
  // another call; 0: the file's again. Per-layer multipliers and the factor of a cluster's scaling
  // apply to it. A snapshot does not hold it. Throws Error unless it is finite and at least 0.
  virtual void SetLearningRate(float rate) = 0;
  // The solvers finish their iterations; the run is saved, and ends. Ends a pause.
  virtual void Stop() = 0;

 protected:
  RunHandle() = default;
};

class MILLRACE_API Run : public RunHandle {
 public:
  // Starts a run in a thread. What a file has wrong is an Error of Wait. The destructor stops the
  // run and waits for its end.
  static std::unique_ptr<Run> Start(const RunOptions& options);

  // Whether the run has ended within so many seconds.
  virtual bool WaitFor(double seconds) = 0;
  // Waits for the end. Throws the Error that ended the run, at each call.
  virtual RunResult Wait() = 0;

 protected:
  Run() = default;
};

}  // namespace millrace

#endif  // MILLRACE_RUN_H_
