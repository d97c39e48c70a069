// Whole clusters: `millrace train` on machines in miniature, as a user runs it.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <thread>

#include "base/error.h"
#include "monitor/metrics.h"
#include "solver/snapshot.h"
#include "test/netns/network.h"
#include "test/support/problem.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

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

  // All that a segment at work counts is there.
  static bool SegmentIsBusy(const MetricsRow& row) {
    for (const char* name : {"members", "in_sync", "frames_out", "frames_in", "wire_bytes_out",
                             "bytes_in", "positions_taken", "diffs_sent", "diffs_merged", "sweeps",
                             "passes", "age_p50_ms", "age_max_ms", "age_iterations", "distance_rms",
                             "distance_max", "round_trip_p50_ms", "round_trip_p99_ms"}) {
      const auto found = row.segments().find(Cat("lan.", name));
      if (found == row.segments().end() || !(found->second > 0)) return false;
    }
    return true;
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

TEST_F(ClusterOfMachines, TrainsToAccuracyOverUdp) {
  Build(3);
  WriteTopology("transport: \"udp\"");
  TrainToAccuracy(Solver(1500));
}

// The parts of tests come together at the node that leads, which alone speaks of them.
TEST_F(ClusterOfMachines, DividesTestsOverItsNodes) {
  Build(2);
  WriteTopology("transport: \"udp\"");
  caffe::SolverParameter solver = Solver(600);
  solver.set_test_interval(200);
  solver.set_test_iter(0, 8);
  solver.set_display(0);
  StartAll(solver);
  std::vector<CommandResult> results;
  for (int i = 0; i < 2; ++i) results.push_back(Finish(i));
  EXPECT_EQ(Accuracy(results).second, 1);
  size_t said = 0;
  for (const CommandResult& result : results) {
    for (size_t at = 0; (at = result.errors.find("Testing net (#0)", at)) != std::string::npos;) {
      ++said;
      ++at;
    }
  }
  EXPECT_EQ(said, 4u);  // before iterations 0, 200 and 400, and at the end
}

TEST_F(ClusterOfMachines, TrainsToAccuracyOverRawEthernetWithJumboFrames) {
  Build(3, 9000);
  WriteTopology("transport: \"packet\" mtu: 9000");
  TrainToAccuracy(Solver(1500));
}

TEST_F(ClusterOfMachines, TrainsToAccuracyWithCoarseDifferencesAndLoss) {
  const std::string reason = Network::WhyNoLoss();
  if (!reason.empty()) GTEST_SKIP() << reason;
  Build(3);
  for (int i = 0; i < 3; ++i) network_->LosePackets(i, 0.1, 200);
  WriteTopology("transport: \"udp\" codec: \"int8\"");
  TrainToAccuracy(Solver(1500));
  EXPECT_GT(network_->PacketsLost(0), 0u);
}

TEST_F(ClusterOfMachines, SharesOneScheduleAndStopsTogetherWithOneSnapshot) {
  Build(3);
  WriteTopology("transport: \"udp\"");
  StartAll(Endless());
  for (int i = 0; i < 3; ++i) AwaitIteration(i, 200);
  // The nodes agree on how far the run is: what any of them shows is near what all do.
  for (int i = 0; i < 3; ++i) nodes_[i]->Signal(SIGINT);
  for (int i = 0; i < 3; ++i) Finish(i);
  EXPECT_EQ(Snapshots(), 1);
}

TEST_F(ClusterOfMachines, ResumesWithTheDataOfEachNodeWhereItStood) {
  Build(2);
  WriteTopology("transport: \"udp\"");
  caffe::SolverParameter solver = Workspace::Solver(330);
  solver.set_snapshot(300);
  solver.set_snapshot_prefix(work_ / "run");
  // Batches that the nodes had trained on when they saved their parts.
  const auto trained = [&](int64_t iteration) {
    int64_t batches = 0;
    for (int i = 0; i < 2; ++i) {
      const std::string state = Cat(work_.Snapshot("run", iteration), ".solverstate");
      const caffe::StreamPosition at =
          LoadResumePoint(NodeStatePath(state, NameOf(i))).state.stream(0);
      batches += static_cast<int64_t>(at.next_batch()) - at.outstanding_size();
    }
    return batches;
  };
  StartAll(solver);
  for (int i = 0; i < 2; ++i) Finish(i);
  EXPECT_EQ(work_.FilesWith("run_iter_300.caffemodel").size(), 1u);
  EXPECT_NEAR(static_cast<double>(trained(300)), 300, 50);
  solver.set_max_iter(630);
  for (int i = 0; i < 2; ++i) {
    Start(i, solver, "topology.prototxt", work_.Snapshot("run", 300) + ".solverstate");
  }
  for (int i = 0; i < 2; ++i) {
    const std::string part = Cat("run_iter_300.", NameOf(i), ".solverstate at iteration 300");
    EXPECT_CONTAINS(Finish(i).errors, part);
  }
  EXPECT_NEAR(static_cast<double>(trained(600)), 600, 50);
}

TEST_F(ClusterOfMachines, ShowsWhatItsSegmentsDoInTheMetricsAndInTop) {
  Build(2);
  WriteTopology("transport: \"udp\"");
  StartAll(Endless());
  for (int i = 0; i < 2; ++i) AwaitIteration(i, 100);
  for (int i = 0; i < 2; ++i) {
    AwaitThat(i, "writes what its segment does", [&] {
      const std::vector<MetricsRow> rows = ReadMetrics(work_ / (NameOf(i) + ".jsonl"));
      return std::any_of(rows.begin(), rows.end(), SegmentIsBusy);
    });
  }
  const CommandResult top = Process({Binary(), "top", "--once", "--peers"}).Wait(120);
  EXPECT_EQ(top.status, 0) << top.errors;
  for (const char* node : {"a", "b"}) {
    EXPECT_CONTAINS(top.output, Cat(" on test/", node, " (pid "));
    EXPECT_CONTAINS(top.output, Cat("\n    ", node, "  "));  // as the peer of the other
  }
  const CommandResult json = Process({Binary(), "top", "--once", "--json"}).Wait(120);
  EXPECT_CONTAINS(json.output, "\"peer a on lan\":{\"frames_out\":");
  EXPECT_CONTAINS(json.output, "\"segment lan\":{\"members\":2,");
  for (int i = 0; i < 2; ++i) nodes_[i]->Signal(SIGINT);
  for (int i = 0; i < 2; ++i) Finish(i);
}

TEST_F(ClusterOfMachines, GoesOnWithoutANodeThatIsKilledAndTakesItBack) {
  Build(3);
  WriteTopology("transport: \"udp\"");
  StartAll(Endless());
  for (int i = 0; i < 3; ++i) AwaitIteration(i, 100);
  nodes_[1]->Signal(SIGKILL);
  nodes_.erase(1);
  const int64_t then = Iteration(0);
  AwaitIteration(0, then + 400);
  AwaitIteration(2, then + 400);
  Start(1, Endless());
  Await(1, "Joined the run at iteration ");
  AwaitIteration(1, Iteration(0) + 40);
  for (int i = 0; i < 3; ++i) nodes_[i]->Signal(SIGINT);
  for (int i = 0; i < 3; ++i) Finish(i);
  EXPECT_EQ(Snapshots(), 1);
}

TEST_F(ClusterOfMachines, GoesOnWithoutANodeThatIsFrozenOrStopped) {
  Build(3);
  WriteTopology("transport: \"udp\"");
  StartAll(Endless());
  for (int i = 0; i < 3; ++i) AwaitIteration(i, 100);
  nodes_[2]->Signal(SIGSTOP);
  AwaitIteration(0, Iteration(0) + 400);
  nodes_[2]->Signal(SIGCONT);
  // It finds itself outside and comes back by listening.
  AwaitIteration(2, Iteration(0) + 40);
  nodes_[0]->Signal(SIGINT);
  const CommandResult left = Finish(0);
  EXPECT_CONTAINS(left.errors, "Left the cluster; the other nodes have all that this one did");
  EXPECT_EQ(Snapshots(), 0);  // the others go on, and will save
  AwaitIteration(1, Iteration(1) + 100);
  for (int i : {1, 2}) nodes_[i]->Signal(SIGINT);
  for (int i : {1, 2}) Finish(i);
  EXPECT_EQ(Snapshots(), 1);
}

TEST_F(ClusterOfMachines, ComesTogetherAgainAfterItWasDivided) {
  Build(3);
  WriteTopology("transport: \"udp\"");
  StartAll(Endless());
  for (int i = 0; i < 3; ++i) AwaitIteration(i, 100);
  network_->Run(2, {"ip", "link", "set", Network::DeviceOf(2), "down"});
  AwaitIteration(0, Iteration(0) + 400);
  AwaitIteration(2, Iteration(2) + 100);  // alone it goes on as well
  network_->Run(2, {"ip", "link", "set", Network::DeviceOf(2), "up"});
  AwaitIteration(2, Iteration(0) + 400);
  for (int i = 0; i < 3; ++i) nodes_[i]->Signal(SIGINT);
  for (int i = 0; i < 3; ++i) Finish(i);
  EXPECT_EQ(Snapshots(), 1);
}

TEST_F(ClusterOfMachines, DoesNotMixWithAnotherOnTheSameWire) {
  Build(2);
  WriteTopology("transport: \"packet\"", "one", "one.prototxt");
  WriteTopology("transport: \"packet\"", "two", "two.prototxt");
  Start(0, Endless(), "one.prototxt");
  Start(1, Endless(), "two.prototxt");
  for (int i = 0; i < 2; ++i) Await(i, "The run begins with the weights of this node");
  for (int i = 0; i < 2; ++i) AwaitIteration(i, 200);
  for (int i = 0; i < 2; ++i) nodes_[i]->Signal(SIGINT);
  for (int i = 0; i < 2; ++i) Finish(i);
  EXPECT_EQ(Snapshots(), 2);  // each cluster has its own
}

TEST_F(ClusterOfMachines, TrainsWithAKeyAndRefusesWhoeverHasAnother) {
  Build(3);
  WriteFile(work_ / "key", std::string(64, '7'));
  WriteFile(work_ / "other", std::string(64, '8'));
  for (const char* key : {"key", "other"}) chmod((work_ / key).c_str(), 0600);
  WriteTopology("transport: \"packet\" key_file: \"key\"");
  WriteTopology("transport: \"packet\" key_file: \"other\"", "test", "other.prototxt");
  Start(0, Endless());
  Start(1, Endless());
  for (int i : {0, 1}) AwaitIteration(i, 200);
  Start(2, Endless(), "other.prototxt");
  const CommandResult refused = nodes_[2]->Wait();
  nodes_.erase(2);
  EXPECT_EQ(refused.status, 1);
  EXPECT_CONTAINS(refused.errors, "uses another key");
  Await(0, "Refused: node c uses another key");
  const int64_t then = Iteration(0);
  AwaitIteration(0, then + 200);
  for (int i : {0, 1}) nodes_[i]->Signal(SIGINT);
  for (int i : {0, 1}) Finish(i);
  EXPECT_EQ(Snapshots(), 1);
}

TEST_F(ClusterOfMachines, RefusesANodeWhoseNetIsAnotherByNameOnBothSides) {
  Build(2);
  WriteTopology("transport: \"udp\"");
  Start(0, Endless());
  AwaitIteration(0, 100);
  SmallNet other = work_.Net();
  other.convolution = true;
  work_.WriteNet(other);
  Start(1, Endless());
  const CommandResult refused = nodes_[1]->Wait();
  nodes_.erase(1);
  EXPECT_EQ(refused.status, 1);
  EXPECT_CONTAINS(refused.errors, "millrace: segment lan: node a has another net: ");
  Await(0, "Refused: node b has another net: ");
  nodes_[0]->Signal(SIGINT);
  Finish(0);
}

}  // namespace
}  // namespace millrace::test
