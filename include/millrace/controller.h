// A controller: a program that tells the workers of a run what to do next, as Platoon's controllers
// do. It works through the control services of the workers (docs/control.md) and is no part of the
// run: if it ends, they go on with what they were told, and it can be started again.
//
//   class MyController : public millrace::Controller {
//    public:
//     millrace::Instruction Next(const millrace::Worker& worker) override {
//       if (worker.iteration >= 10000) return millrace::Instruction::Stop();
//       return trained_[worker.name] = !trained_[worker.name]
//                  ? millrace::Instruction::Train(500)
//                  : millrace::Instruction::Test();
//     }
//     std::map<std::string, bool> trained_;
//   };
//   MyController controller;
//   millrace::RunController(&controller, {.topology = "cluster.prototxt"});
#ifndef MILLRACE_CONTROLLER_H_
#define MILLRACE_CONTROLLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "millrace/export.h"

namespace millrace {

struct Instruction {
  enum Kind {
    kTrain,            // for so many iterations of the run from now on
    kTest,             // run the test nets
    kSnapshot,         // write a snapshot
    kSetLearningRate,  // replace the learning rate of the solver file; 0: the file's again
    kPause,            // until the next instruction
    kStop,             // save and end
  };
  static Instruction Train(int64_t iterations) { return {kTrain, iterations, 0}; }
  static Instruction Test() { return {kTest, 0, 0}; }
  static Instruction Snapshot() { return {kSnapshot, 0, 0}; }
  static Instruction SetLearningRate(float rate) { return {kSetLearningRate, 0, rate}; }
  static Instruction Pause() { return {kPause, 0, 0}; }
  static Instruction Stop() { return {kStop, 0, 0}; }

  Kind kind = kTrain;
  int64_t iterations = 0;  // of kTrain, at least 1
  float rate = 0;          // of kSetLearningRate, at least 0
};

// A worker as its control service reports it.
struct Worker {
  std::string name = "";        // in the topology, or its address
  std::string state = "";       // as RunStatus: "training", ...; "lost": does not answer
  int64_t iteration = 0;        // of the run
  int64_t max_iteration = 0;    // 0: not known yet
  double loss = 0;              // smoothed
  double learning_rate = 0;     // of the last iteration
  int64_t test_iteration = -1;  // of the last test; -1: none
  std::map<std::string, double> outputs = {};  // of the first test net's last test
  std::string snapshot = "";                   // .solverstate of its last snapshot; "": none
};

// The functions are called one at a time, by the thread that calls RunController. What they throw
// ends it, and not the run.
class MILLRACE_API Controller {
 public:
  virtual ~Controller() = default;
  // What the worker does next. Called when it is first seen training, and when it has done what it
  // was told; a worker that was lost and has come back counts as first seen.
  virtual Instruction Next(const Worker& worker) = 0;
  // The worker does not answer, or has ended.
  virtual void Left(const Worker& worker) { (void)worker; }
  // What a controller that is started again needs to go on, in one line; "": nothing. Saved after
  // each instruction, restored before the first.
  virtual std::string State() const { return ""; }
  virtual void Restore(const std::string& state) { (void)state; }
};

struct ControllerOptions {
  // The workers: all nodes of a topology that have a control service, or their addresses.
  std::string topology = "";
  std::vector<std::string> addresses = {};
  std::string key_file = "";  // as ControlOptions::key_file
  bool tls = false;           // as are the next
  std::string authorities = "";
  std::string state_file = "";  // with Controller::State; "": not saved
  double poll_seconds = 0.2;    // between two looks at a worker
  double lost_seconds = 10;     // without an answer: a worker is lost; at the start 60
  // Called between looks: whether to end. Null: only when no worker runs any more.
  std::function<bool()> stopped = {};
};

// Returns when all workers have ended or are lost, or when `stopped` says so. Throws Error for
// wrong options, an instruction out of range, or a state file that cannot be read or written.
MILLRACE_API void RunController(Controller* controller, const ControllerOptions& options);

struct EarlyStoppingOptions {
  std::string output = "accuracy";  // of the first test net
  bool greater_is_better = true;
  int64_t test_every = 500;  // iterations of the run
  int patience = 10;         // tests without a better one, after which all workers stop
};

// A controller that has one worker test the run regularly, takes a snapshot of the best test, and
// stops all workers when there is no better one for long. If the worker that tests leaves, another
// one tests.
class MILLRACE_API EarlyStopping : public Controller {
 public:
  // Throws Error for an option out of range.
  explicit EarlyStopping(EarlyStoppingOptions options);

  // Throws Error if the test has no such output.
  Instruction Next(const Worker& worker) override;
  void Left(const Worker& worker) override;
  std::string State() const override;
  void Restore(const std::string& state) override;

  int64_t best_iteration() const { return best_iteration_; }  // -1: none
  double best() const { return best_; }
  const std::string& best_snapshot() const { return best_snapshot_; }  // "": none

 private:
  Instruction AfterTest(const Worker& worker);

  const EarlyStoppingOptions options_;
  std::string tester_;                            // its name; "": none
  Instruction::Kind last_ = Instruction::kTrain;  // of the tester
  int64_t tested_ = -1;                           // iteration of the last test that counts
  int64_t best_iteration_ = -1;
  double best_ = 0;
  std::string best_snapshot_;
  int without_better_ = 0;
  bool stops_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_CONTROLLER_H_
