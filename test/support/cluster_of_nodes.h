// Complete clusters for tests: one `millrace train` process per node, started as a user would.
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

// Nodes a, b, c, ..., numbered 0, 1, 2, .... A derived fixture chooses their machines and network.
class ClusterOfNodes : public testing::Test {
 protected:
  static std::string NameOf(int node) { return std::string(1, static_cast<char>('a' + node)); }

  // Calls `start`, which starts a process, on the machine of `node`.
  virtual void Inside(int node, const std::function<void()>& start);

  // `wrapper` precedes the command. Every node saves under its own name and writes NAME.jsonl.
  void Start(int node, caffe::SolverParameter solver,
             const std::string& topology = "topology.prototxt", const std::string& snapshot = "",
             const std::vector<std::string>& wrapper = {});
  void StartAll(const caffe::SolverParameter& solver) {
    for (int i = 0; i < size_; ++i) Start(i, solver);
  }

  // Waits until `condition` holds. Fails after a timeout, or if the node ends.
  void AwaitThat(int node, const std::string& what, const std::function<bool()>& condition);
  // Waits until the node has logged `text`.
  void Await(int node, const std::string& text);
  // Iteration of the newest row of the node's metrics; -1 without a row.
  int64_t Iteration(int node) const;
  void AwaitIteration(int node, int64_t iteration);
  // Waits for the end of the node and expects success.
  CommandResult Finish(int node);
  // Waits for the end of the node and expects exit status 1. Returns the error line.
  std::string FinishWithError(int node);
  void Kill(int node);
  // Stops all nodes at once and waits for them.
  std::vector<CommandResult> StopAll();

  // Frames dropped for `reason`, summed over the final log lines of all finished nodes.
  uint64_t Dropped(const std::string& reason) const;
  // The accuracy, which all nodes have to agree on, and the number of nodes that print one.
  static std::pair<double, int> Accuracy(const std::vector<CommandResult>& results);
  // Models saved by all nodes.
  std::vector<std::string> Models() const;
  int Snapshots() const { return static_cast<int>(Models().size()); }

  static caffe::SolverParameter Solver(int iterations);
  // A solver that runs until it is stopped.
  static caffe::SolverParameter Endless();

  // Trains to the end. All nodes have to report an accuracy of at least `least`, and one has to
  // save.
  void TrainToAccuracy(const caffe::SolverParameter& solver, double least = 0.9);

  void TearDown() override;

  Workspace work_;
  std::string logs_;  // of finished nodes
  int size_ = 0;      // number of nodes
  std::map<int, std::unique_ptr<Process>> nodes_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_CLUSTER_OF_NODES_H_
