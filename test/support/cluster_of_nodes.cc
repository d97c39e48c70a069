#include "test/support/cluster_of_nodes.h"

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "base/error.h"

namespace millrace::test {

void ClusterOfNodes::Inside(int, const std::function<void()>& start) { start(); }

void ClusterOfNodes::Start(int node, caffe::SolverParameter solver, const std::string& topology,
                           const std::string& snapshot, const std::vector<std::string>& wrapper) {
  const std::string name = NameOf(node);
  const std::string file = work_.Write(name, std::move(solver));
  std::vector<std::string> command = wrapper;
  command.insert(
      command.end(),
      {Binary(), "train", "--solver=" + file, "--topology=" + (work_ / topology), "--node=" + name,
       "--metrics=" + (work_ / (name + ".jsonl")), "--snapshot=" + snapshot});
  Inside(node, [&] { nodes_[node] = std::make_unique<Process>(command); });
}

void ClusterOfNodes::AwaitThat(int node, const std::string& what,
                               const std::function<bool()>& condition) {
  for (int i = 0; i < 60000 * Patience(); ++i) {
    if (condition()) return;
    siginfo_t ended{};
    if (waitid(P_PID, nodes_[node]->pid(), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid != 0) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << NameOf(node) << " never " << what << ":\n" << nodes_[node]->ErrorsSoFar();
}

void ClusterOfNodes::Await(int node, const std::string& text) {
  AwaitThat(node, "says \"" + text + "\"",
            [&] { return nodes_[node]->ErrorsSoFar().find(text) != std::string::npos; });
}

int64_t ClusterOfNodes::Iteration(int node) const {
  // Reads only the end of the file, because callers poll a hundred times a second.
  constexpr std::streamoff kEnd = 1 << 14;
  std::ifstream file(work_ / (NameOf(node) + ".jsonl"), std::ios::ate | std::ios::binary);
  file.seekg(std::max<std::streamoff>(0, static_cast<std::streamoff>(file.tellg()) - kEnd));
  int64_t iteration = -1;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const size_t at = line.find("\"iter\":");
    if (at != std::string::npos) iteration = std::stoll(line.substr(at + 7));
  }
  return iteration;
}

void ClusterOfNodes::AwaitIteration(int node, int64_t iteration) {
  AwaitThat(node, StrCat("comes to iteration ", iteration),
            [&] { return Iteration(node) >= iteration; });
}

CommandResult ClusterOfNodes::Finish(int node) {
  CommandResult result = nodes_[node]->Wait();
  nodes_.erase(node);
  EXPECT_EQ(result.status, 0) << NameOf(node) << ":\n" << result.errors;
  logs_ += NameOf(node) + ":\n" + result.errors;
  return result;
}

std::string ClusterOfNodes::FinishWithError(int node) {
  const CommandResult result = nodes_[node]->Wait();
  nodes_.erase(node);
  EXPECT_EQ(result.status, 1) << NameOf(node) << ":\n" << result.errors;
  const std::vector<std::string> lines = PlainLines(result.errors);
  EXPECT_EQ(lines.size(), 1u) << result.errors;
  return lines.empty() ? "" : lines[0];
}

void ClusterOfNodes::Kill(int node) {
  nodes_[node]->Signal(SIGKILL);
  nodes_.erase(node);
}

std::vector<CommandResult> ClusterOfNodes::StopAll() {
  for (auto& [node, process] : nodes_) process->Signal(SIGINT);
  std::vector<CommandResult> results;
  while (!nodes_.empty()) results.push_back(Finish(nodes_.begin()->first));
  return results;
}

uint64_t ClusterOfNodes::Dropped(const std::string& reason) const {
  uint64_t sum = 0;
  std::istringstream lines(logs_);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find("; dropped:"), at = line.find(" " + reason + " ", begin);
    if (begin == std::string::npos || at == std::string::npos) continue;
    sum += std::stoull(line.substr(at + reason.size() + 2));
  }
  return sum;
}

std::pair<double, int> ClusterOfNodes::Accuracy(const std::vector<CommandResult>& results) {
  double accuracy = 0;
  int printed = 0;
  for (const CommandResult& result : results) {
    const size_t at = result.output.find("accuracy = ");
    if (at == std::string::npos) continue;
    const double value = std::stod(result.output.substr(at + 11));
    if (printed++ > 0) {
      EXPECT_EQ(value, accuracy);
    }
    accuracy = value;
  }
  return {accuracy, printed};
}

std::vector<std::string> ClusterOfNodes::Models() const {
  std::vector<std::string> models;
  for (int i = 0; i < size_; ++i) {
    for (const std::string& file : work_.FilesWith(NameOf(i) + "_iter_")) {
      if (file.find(".caffemodel") != std::string::npos) models.push_back(work_ / file);
    }
  }
  return models;
}

caffe::SolverParameter ClusterOfNodes::Solver(int iterations) {
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(iterations), iterations);
  solver.set_display(20);
  solver.set_base_lr(0.02f);  // bears exchanges that a busy machine makes rare
  return solver;
}

caffe::SolverParameter ClusterOfNodes::Endless() {
  caffe::SolverParameter solver = Workspace::Solver(1'000'000'000);
  solver.set_display(20);
  return solver;
}

void ClusterOfNodes::TrainToAccuracy(const caffe::SolverParameter& solver, double least) {
  StartAll(solver);
  std::vector<CommandResult> results;
  for (int i = 0; i < size_; ++i) results.push_back(Finish(i));
  const auto [accuracy, printed] = Accuracy(results);
  EXPECT_GE(accuracy, least);
  EXPECT_EQ(printed, size_);
  EXPECT_EQ(Snapshots(), 1);
}

void ClusterOfNodes::TearDown() {
  if (!HasFailure()) return;
  std::cout << logs_;
  for (const auto& [node, process] : nodes_) {
    std::cout << NameOf(node) << " (still there):\n" << process->ErrorsSoFar();
  }
}

}  // namespace millrace::test
