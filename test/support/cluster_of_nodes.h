// Whole clusters for tests: `millrace train` for each of some nodes, as a user runs it.
#ifndef MILLRACE_TEST_SUPPORT_CLUSTER_OF_NODES_H_
#define MILLRACE_TEST_SUPPORT_CLUSTER_OF_NODES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/support/problem.h"
#include "test/support/support.h"

namespace millrace::test {

// Nodes a, b, c, ..., which are 0, 1, 2, ... here. What machines they run on, and what
// network joins those, is a derived fixture's.
class ClusterOfNodes : public testing::Test {
 protected:
  static std::string NameOf(int node) { return std::string(1, static_cast<char>('a' + node)); }

  // What starts a process, on the machine of that node.
  virtual void Inside(int node, const std::function<void()>& start);

  // `wrapper` is put before the command. Every node saves under its own name and writes
  // NAME.jsonl.
  void Start(int node, caffe::SolverParameter solver,
             const std::string& topology = "topology.prototxt", const std::string& snapshot = "",
             const std::vector<std::string>& wrapper = {});
  void StartAll(const caffe::SolverParameter& solver) {
    for (int i = 0; i < size_; ++i) Start(i, solver);
  }

  // Waits until `condition` holds; fails if that takes for ever, or the node ends.
  void AwaitThat(int node, const std::string& what, const std::function<bool()>& condition);
  // Until it has said so.
  void Await(int node, const std::string& text);
  // Of the newest row of the node's metrics, -1 without one.
  int64_t Iteration(int node) const;
  void AwaitIteration(int node, int64_t iteration);
  // Waits for its end, which has to be a good one ...
  CommandResult Finish(int node);
  // ... or one with exit status 1: returns the one line that says why.
  std::string FinishWithError(int node);
  void Kill(int node);
  // All at once; each finishes.
  std::vector<CommandResult> StopAll();

  // How often the final lines of all nodes that have finished count that reason.
  uint64_t Dropped(const std::string& reason) const;
  // The accuracy that nodes print, all of them the same; how many printed one.
  static std::pair<double, int> Accuracy(const std::vector<CommandResult>& results);
  // The models that all nodes have saved.
  std::vector<std::string> Models() const;
  int Snapshots() const { return static_cast<int>(Models().size()); }

  static caffe::SolverParameter Solver(int iterations);
  // Goes on until it is told to stop.
  static caffe::SolverParameter Endless();

  // To the end: all nodes speak of an accuracy of `least` or more, and one saves.
  void TrainToAccuracy(const caffe::SolverParameter& solver, double least = 0.9);

  void TearDown() override;

  Workspace work_;
  std::string logs_;  // of nodes that have finished
  int size_ = 0;      // how many nodes there are
  std::map<int, std::unique_ptr<Process>> nodes_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_CLUSTER_OF_NODES_H_
