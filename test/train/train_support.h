// Complete training runs in this process, and their results.
#ifndef MILLRACE_TEST_TRAIN_TRAIN_SUPPORT_H_
#define MILLRACE_TEST_TRAIN_TRAIN_SUPPORT_H_

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "metrics/metrics_writer.h"
#include "proto/parse.h"
#include "solver/snapshot.h"
#include "test/support/problem.h"
#include "test/support/support.h"
#include "train/train_run.h"

namespace millrace::test {

struct Outcome {
  TrainResult result;
  std::vector<MetricsRow> rows;

  // Displayed losses by iteration. Fails the test if an iteration occurs twice.
  std::map<int64_t, double> Losses() const {
    std::map<int64_t, double> losses;
    for (const MetricsRow& row : rows) {
      if (!row.has_train()) continue;
      EXPECT_TRUE(losses.emplace(row.iter(), row.train().loss()).second)
          << "iteration " << row.iter() << " twice";
    }
    return losses;
  }
  // Iterations at which test net `net` was evaluated, in the order of the rows.
  std::vector<int64_t> Tests(int net = 0) const {
    std::vector<int64_t> iterations;
    for (const MetricsRow& row : rows) {
      if (row.has_test() && row.test().net() == net) iterations.push_back(row.iter());
    }
    return iterations;
  }
  // Final value of an output of test net 0.
  double FinalOutput(const std::string& name) const {
    for (const OutputMean& output : result.tests.at(0).outputs) {
      if (output.name == name) return output.mean;
    }
    throw Error("no test output '", name, "'");
  }
};

// Calls `act` once, when at least `iteration` iterations have been completed.
class AtIteration : public RunObserver {
 public:
  AtIteration(int64_t iteration, std::function<void()> act)
      : iteration_(iteration), act_(std::move(act)) {}
  void Started(int64_t, double) override {}
  void Iterated(int64_t completed, double) override {
    if (completed >= iteration_ && !acted_.exchange(true)) act_();
  }
  void Ended() override {}

 private:
  const int64_t iteration_;
  const std::function<void()> act_;
  std::atomic<bool> acted_{false};
};

// Asks the run `name` for a snapshot after 50 iterations, and for a stop once it has been written.
class SnapshotThenStop : public RunObserver {
 public:
  SnapshotThenStop(const Workspace* work, std::string name, RequestedCommands* commands)
      : work_(*work), prefix_(std::move(name) + "_iter_"), commands_(*commands) {}
  void Started(int64_t, double) override {}
  void Iterated(int64_t completed, double) override {
    if (completed < 50 || stopped_) return;
    if (!std::exchange(asked_, true)) return commands_.Snapshot();
    for (const std::string& file : work_.FilesWith(prefix_)) {
      if (stopped_ || !file.ends_with(".solverstate")) continue;
      stopped_ = true;
      commands_.Stop();
    }
  }
  void Ended() override {}

 private:
  const Workspace& work_;
  const std::string prefix_;
  RequestedCommands& commands_;
  bool asked_ = false, stopped_ = false;
};

// Trains `solver` under `name`, with metrics in NAME.jsonl.
inline Outcome RunNamed(const Workspace& work, const std::string& name,
                        const caffe::SolverParameter& solver, TrainOptions options = {}) {
  options.solver_file = work.Write(name, solver);
  options.metrics = work / (name + ".jsonl");
  Outcome outcome;
  outcome.result = Train(options);
  outcome.rows = ReadMetrics(options.metrics);
  return outcome;
}

inline TrainOptions WithSolvers(int solvers) {
  TrainOptions options;
  options.solvers = solvers;
  return options;
}

// `solver` with the strategy local and these fields of it.
inline caffe::SolverParameter Local(caffe::SolverParameter solver, const std::string& fields) {
  ParseText(StrCat("type: 'local' ", fields), "strategy", solver.mutable_strategy(), nullptr);
  return solver;
}

// Fields of the strategy local: a sync condition.
inline std::string Steps(int every) {
  return StrCat("sync_condition { type: 'steps' param { key: 'every' value: ", every, " } } ");
}

inline std::string ModelFile(const Workspace& work, const std::string& name, int64_t iteration) {
  return ReadFile(work.Snapshot(name, iteration) + ".caffemodel");
}

// Solver state without the path of its model, which differs between runs.
inline caffe::SolverState StateOf(const Workspace& work, const std::string& name,
                                  int64_t iteration) {
  caffe::SolverState state = LoadResumePoint(work.Snapshot(name, iteration) + ".solverstate").state;
  state.clear_learned_net();
  return state;
}

// All weights of a model, in file order.
inline std::vector<float> WeightsOf(const caffe::NetParameter& model) {
  std::vector<float> weights;
  for (const caffe::LayerParameter& layer : model.layer()) {
    for (const caffe::BlobProto& blob : layer.blobs()) {
      weights.insert(weights.end(), blob.data().begin(), blob.data().end());
    }
  }
  return weights;
}

inline std::vector<float> WeightsOf(const Workspace& work, const std::string& name,
                                    int64_t iteration) {
  return WeightsOf(LoadModel(work.Snapshot(name, iteration) + ".caffemodel"));
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TRAIN_TRAIN_SUPPORT_H_
