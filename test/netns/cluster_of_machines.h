// Whole clusters for tests: `millrace train` on machines in miniature, as a user runs it.
#ifndef MILLRACE_TEST_NETNS_CLUSTER_OF_MACHINES_H_
#define MILLRACE_TEST_NETNS_CLUSTER_OF_MACHINES_H_

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "test/netns/network.h"
#include "test/support/problem.h"
#include "test/support/support.h"

namespace millrace::test {

// Nodes a, b, c, ... on machines 0, 1, 2, ... of one network.
class ClusterOfMachines : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = Network::WhyNot();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  void Build(int machines, int mtu = 1500) {
    network_ = std::make_unique<Network>(mtu, machines);
    machines_ = machines;
  }

  static std::string NameOf(int machine) {
    return std::string(1, static_cast<char>('a' + machine));
  }

  void WriteTopology(const std::string& segment_fields, const std::string& cluster = "test",
                     const std::string& file = "topology.prototxt") {
    std::string text = Cat("name: \"", cluster, "\"\n");
    for (int i = 0; i < machines_; ++i) {
      text +=
          Cat("node { name: \"", NameOf(i), "\" address: \"", Network::AddressOf(i),
              "\" interface: \"", Network::DeviceOf(i), "\" mac: \"", Network::MacOf(i), "\" }\n");
    }
    text += "segment { name: \"lan\" heartbeat_ms: 50 suspect_ms: 1000 " + segment_fields + " }\n";
    WriteFile(work_ / file, text);
  }

  // Every machine saves under its own name and writes NAME.jsonl.
  void Start(int machine, caffe::SolverParameter solver,
             const std::string& topology = "topology.prototxt", const std::string& snapshot = "") {
    const std::string name = NameOf(machine);
    const std::string file = work_.Write(name, std::move(solver));
    network_->Inside(machine, [&] {
      nodes_[machine] = std::make_unique<Process>(std::vector<std::string>{
          Binary(), "train", "--solver=" + file, "--topology=" + (work_ / topology),
          "--node=" + name, "--metrics=" + (work_ / (name + ".jsonl")), "--snapshot=" + snapshot});
    });
  }
  void StartAll(const caffe::SolverParameter& solver) {
    for (int i = 0; i < machines_; ++i) Start(i, solver);
  }

  // Waits until `condition` holds; fails if that takes for ever, or the node ends.
  template <typename Condition>
  void AwaitThat(int machine, const std::string& what, Condition condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return;
      siginfo_t ended{};
      if (waitid(P_PID, nodes_[machine]->pid(), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          ended.si_pid != 0) {
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL() << NameOf(machine) << " never " << what << ":\n" << nodes_[machine]->ErrorsSoFar();
  }
  void Await(int machine, const std::string& text) {
    AwaitThat(machine, "says \"" + text + "\"",
              [&] { return nodes_[machine]->ErrorsSoFar().find(text) != std::string::npos; });
  }
  // The iteration of the newest row of the node's metrics, -1 without one.
  int64_t Iteration(int machine) const {
    std::ifstream file(work_ / (NameOf(machine) + ".jsonl"));
    int64_t iteration = -1;
    for (std::string line; std::getline(file, line) && !file.eof();) {
      const size_t at = line.find("\"iter\":");
      if (at != std::string::npos) iteration = std::stoll(line.substr(at + 7));
    }
    return iteration;
  }
  void AwaitIteration(int machine, int64_t iteration) {
    AwaitThat(machine, Cat("comes to iteration ", iteration),
              [&] { return Iteration(machine) >= iteration; });
  }
  CommandResult Finish(int machine) {
    CommandResult result = nodes_[machine]->Wait(120);
    nodes_.erase(machine);
    EXPECT_EQ(result.status, 0) << NameOf(machine) << ":\n" << result.errors;
    logs_ += NameOf(machine) + ":\n" + result.errors;
    return result;
  }

  // How often the final lines of all nodes that have finished count that reason.
  uint64_t Dropped(const std::string& reason) const {
    uint64_t sum = 0;
    std::istringstream lines(logs_);
    for (std::string line; std::getline(lines, line);) {
      const size_t begin = line.find("; dropped:"), at = line.find(" " + reason + " ", begin);
      if (begin == std::string::npos || at == std::string::npos) continue;
      sum += std::stoull(line.substr(at + reason.size() + 2));
    }
    return sum;
  }

  // The accuracy that the one node with the last word prints; how many printed one.
  std::pair<double, int> Accuracy(const std::vector<CommandResult>& results) {
    double accuracy = 0;
    int printed = 0;
    for (const CommandResult& result : results) {
      const size_t at = result.output.find("accuracy = ");
      if (at == std::string::npos) continue;
      accuracy = std::stod(result.output.substr(at + 11));
      ++printed;
    }
    return {accuracy, printed};
  }
  int Snapshots() const {
    int snapshots = 0;
    for (int i = 0; i < machines_; ++i) {
      for (const std::string& file : work_.FilesWith(NameOf(i) + "_iter_")) {
        snapshots += file.find(".caffemodel") != std::string::npos;
      }
    }
    return snapshots;
  }

  static caffe::SolverParameter Solver(int iterations) {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(iterations), iterations);
    solver.set_display(20);
    return solver;
  }
  // Goes on until it is told to stop.
  static caffe::SolverParameter Endless() {
    caffe::SolverParameter solver = Workspace::Solver(1'000'000'000);
    solver.set_display(20);
    return solver;
  }

  void TrainToAccuracy(const caffe::SolverParameter& solver) {
    StartAll(solver);
    std::vector<CommandResult> results;
    for (int i = 0; i < machines_; ++i) results.push_back(Finish(i));
    const auto [accuracy, printed] = Accuracy(results);
    EXPECT_GE(accuracy, 0.9);
    EXPECT_EQ(printed, 1);
    EXPECT_EQ(Snapshots(), 1);
  }

  void TearDown() override {
    if (HasFailure()) std::cout << logs_;
  }

  Workspace work_;
  std::string logs_;
  int machines_ = 0;
  std::unique_ptr<Network> network_;
  std::map<int, std::unique_ptr<Process>> nodes_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_CLUSTER_OF_MACHINES_H_
