// Clusters that train, change their members, stop, and refuse strangers.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "base/files/file.h"
#include "metrics/metrics_writer.h"
#include "solver/snapshot.h"
#include "test/netns/cluster_of_machines.h"

namespace millrace::test {
namespace {

// Whether the row contains positive values for all counters of a busy segment.
bool SegmentIsBusy(const MetricsRow& row) {
  for (const char* name :
       {"members", "in_sync", "frames_sent", "frames_received", "wire_sent_bytes", "received_bytes",
        "positions_taken", "diffs_sent", "diffs_merged", "sweeps", "passes", "age_p50_seconds",
        "age_max_seconds", "age_iterations", "distance_rms", "distance_max",
        "round_trip_p50_seconds", "round_trip_p99_seconds"}) {
    const auto found = row.segments().find(StrCat("lan.", name));
    if (found == row.segments().end() || !(found->second > 0)) return false;
  }
  return true;
}

TEST_F(ClusterOfMachines, TrainsToAccuracyOverUdp) {
  Build(3);
  WriteTopology("transport: \"udp\"");
  TrainToAccuracy(Solver(1500));
}

TEST_F(ClusterOfMachines, TrainsToAccuracyOverUdpWithJumboFrames) {
  Build(3, 9000);
  WriteTopology("transport: \"udp\" mtu: 9000");
  TrainToAccuracy(Solver(1500));
}

TEST_F(ClusterOfMachines, TrainsToAccuracyOverRawEthernet) {
  Build(3);
  WriteTopology("transport: \"packet\"");
  TrainToAccuracy(Solver(1500));
}

// The leader collects the partial results of a test and is the only node that logs them.
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
  EXPECT_EQ(Accuracy(results).second, 2);
  // Tests are due at iterations 0, 200 and 400, and at the end. A leader that is slow to learn of
  // several due tests makes one for all of them, so only the last is certain. None is made twice.
  std::vector<int64_t> tested;
  for (const CommandResult& result : results) {
    static const std::regex line("Iteration (\\d+), Testing net \\(#0\\)");
    for (std::sregex_iterator at(result.errors.begin(), result.errors.end(), line), end; at != end;
         ++at) {
      tested.push_back(std::stoll((*at)[1]));
    }
  }
  std::sort(tested.begin(), tested.end());
  EXPECT_EQ(std::adjacent_find(tested.begin(), tested.end()), tested.end());
  ASSERT_FALSE(tested.empty());
  EXPECT_EQ(tested.back(), 600);
  for (const int64_t iteration : tested) EXPECT_EQ(iteration % 200, 0);
}

// Links so slow that many frames are still in flight when the solvers end.
class EndOfAClusterOfMachines : public ClusterOfMachines {
 protected:
  // Trains three nodes to the end. Returns how many of them print the result of the saved model; no
  // other node may print anything.
  int TrainAndTestTheModel(const std::string& segment_fields, const std::string& fields = "") {
    Build(3);
    WriteTopology("transport: \"udp\" max_mbps: 0.5 " + segment_fields, "test", "topology.prototxt",
                  fields);
    return TrainAndTestTheModel();
  }
  int TrainAndTestTheModel() {
    SmallNet net = work_.Net();
    net.batch = 64;
    net.test_batch = 4;
    work_.WriteNet(net);
    caffe::SolverParameter solver = Solver(20'000);
    solver.set_base_lr(0.0001f);  // so the net still learns at the end
    solver.set_test_iter(0, 8);
    StartAll(solver);
    std::vector<CommandResult> results;
    for (int i = 0; i < 3; ++i) results.push_back(Finish(i));
    EXPECT_EQ(Snapshots(), 1);
    // All nodes ended with the same weights, so nothing was lost.
    EXPECT_EQ(logs_.find("have this node's weights"), std::string::npos) << logs_;
    EXPECT_EQ(logs_.find("left the cluster at the deadline"), std::string::npos) << logs_;
    const CommandResult test = Process({Binary(), "test", "--model=" + (work_ / "net.prototxt"),
                                        "--weights=" + Models().at(0), "--iterations=8"})
                                   .Wait();
    const std::map<std::string, double> expected = ValuesIn(test.output);
    EXPECT_EQ(expected.size(), 2u) << test.output << test.errors;
    int printed = 0;
    for (const CommandResult& result : results) {
      const std::map<std::string, double> values = ValuesIn(result.output);
      if (values.empty()) continue;
      ++printed;
      for (const auto& [name, value] : expected) {
        // The output has four digits.
        EXPECT_NEAR(values.count(name) ? values.at(name) : -1, value, 6e-5) << name;
      }
    }
    return printed;
  }

 private:
  // Parses lines such as "accuracy = 0.9375".
  static std::map<std::string, double> ValuesIn(const std::string& output) {
    std::map<std::string, double> values;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.find(" = ");
      if (at != std::string::npos) values[line.substr(0, at)] = std::stod(line.substr(at + 3));
    }
    return values;
  }
};

TEST_F(EndOfAClusterOfMachines, PrintsOnAllNodesWhatTheSavedModelSays) {
  EXPECT_EQ(TrainAndTestTheModel(""), 3);
}

TEST_F(EndOfAClusterOfMachines, PrintsWhatTheSavedModelSaysWithCoarseDiffs) {
  EXPECT_EQ(TrainAndTestTheModel("codec: \"int8\""), 3);
}

TEST_F(EndOfAClusterOfMachines, PrintsWhatTheSavedModelSaysWithRoundedPositions) {
  EXPECT_EQ(TrainAndTestTheModel("codec: \"int8\" position_codec: \"int8\""), 3);
}

TEST_F(EndOfAClusterOfMachines, PrintsWhatTheSavedModelSaysWithPositionsAsChanges) {
  EXPECT_EQ(TrainAndTestTheModel("codec: \"topk\" share: 0.1 position_codec: \"topk\""), 3);
}

TEST_F(EndOfAClusterOfMachines, PrintsWhatTheSavedModelSaysWithSparseDiffs) {
  EXPECT_EQ(TrainAndTestTheModel("codec: \"sparse\" threshold: 0.01"), 3);
}

TEST_F(EndOfAClusterOfMachines, PrintsWhatTheSavedModelSaysThroughTwoSparseSegments) {
  Build(3);
  const std::string fields =
      "transport: \"udp\" heartbeat_ms: 50 peer_timeout_ms: 1000 codec: \"sparse\" threshold: "
      "0.01 ";
  WriteSegments("segment { name: \"upper\" node: \"a\" node: \"b\" port: 29448 " + fields +
                "}\nsegment { name: \"lower\" node: \"b\" node: \"c\" port: 29449 " + fields +
                "}\n");
  EXPECT_EQ(TrainAndTestTheModel(), 3);
}

TEST_F(EndOfAClusterOfMachines, PrintsWhatTheSavedModelSaysWhereOneNodeTests) {
  EXPECT_EQ(TrainAndTestTheModel("", "distributed_evaluation: false"), 1);
}

// A node that has ended does not wait forever for an unresponsive one.
TEST_F(EndOfAClusterOfMachines, WaitsForNobodyWhoIsFrozen) {
  Build(3);
  WriteTopology("transport: \"udp\"");
  // A schedule that is over before the leader could be frozen is followed by a longer one.
  for (int iterations = 15'000;; iterations *= 4) {
    StartAll(Solver(iterations));
    for (int i = 0; i < 3; ++i) AwaitIteration(i, 100);
    if (HasFatalFailure()) return;
    nodes_[0]->Signal(SIGSTOP);
    const auto at_its_end = [&](int i) {
      return nodes_[i]->ErrorsSoFar().find("Waiting for the last iterations") !=
                 std::string::npos ||
             nodes_[i]->ErrorsSoFar().find("Optimization Done") != std::string::npos;
    };
    if (!at_its_end(0) && !at_its_end(1) && !at_its_end(2)) break;
    for (const std::string& model : Models()) std::filesystem::remove(model);
    for (int i = 0; i < 3; ++i) {
      Kill(i);
      std::filesystem::remove(work_ / (NameOf(i) + ".jsonl"));
    }
  }
  std::vector<CommandResult> results;
  for (int i : {1, 2}) results.push_back(Finish(i));
  EXPECT_EQ(Accuracy(results).second, 2);
  EXPECT_EQ(Snapshots(), 1);
  Kill(0);
}

TEST_F(EndOfAClusterOfMachines, StopsInTheLastTestWhenItIsToldTo) {
  Build(2);
  WriteTopology("transport: \"udp\"");
  caffe::SolverParameter solver = Solver(600);
  solver.set_test_initialization(false);
  solver.set_test_iter(0, 1'000'000'000);  // takes hours
  StartAll(solver);
  Await(0, "Snapshotting to binary proto file");
  for (const CommandResult& result : StopAll()) {
    EXPECT_CONTAINS(result.errors, "Optimization stopped early.");
  }
  EXPECT_EQ(Snapshots(), 1);
}

TEST_F(ClusterOfMachines, TrainsToAccuracyOverRawEthernetWithJumboFrames) {
  Build(3, 9000);
  WriteTopology("transport: \"packet\" mtu: 9000");
  TrainToAccuracy(Solver(1500));
}

TEST_F(ClusterOfMachines, TrainsToAccuracyWithCoarseDiffsAndLoss) {
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
  // The nodes agree on the progress of the run: the count of any node is near the total.
  for (int i = 0; i < 3; ++i) nodes_[i]->Signal(SIGINT);
  for (int i = 0; i < 3; ++i) Finish(i);
  EXPECT_EQ(Snapshots(), 1);
}

// Shards of absent nodes that `node` helps to read, from its part of the snapshot, the only one.
std::vector<uint64_t> SharedShards(const Workspace& work, const std::string& node) {
  std::vector<uint64_t> absent;
  for (const std::string& file : work.FilesWith(node + "_iter_")) {
    caffe::SolverState state;
    if (!file.ends_with("." + node + ".solverstate")) continue;
    EXPECT_TRUE(state.ParseFromString(ReadFile(work / file)));
    for (const caffe::StreamPosition& position : state.stream()) {
      for (const caffe::ShardAssignment& assignment : position.assignment()) {
        absent.assign(assignment.absent().begin(), assignment.absent().end());
      }
    }
  }
  return absent;
}

TEST_F(ClusterOfMachines, ReadsTheDataOfANodeThatWasKilledUntilItIsBack) {
  Build(3);
  WriteTopology("transport: \"udp\"");
  StartAll(Endless());
  for (int i = 0; i < 3; ++i) AwaitIteration(i, 200);
  Kill(1);
  for (int i : {0, 2}) Await(i, "Node b is gone: this node reads 1/2 of its data shard 1\n");
  nodes_[0]->Signal(SIGHUP);
  // The file follows the line of the log.
  AwaitThat(0, "saves which shard it shares",
            [&] { return SharedShards(work_, "a") == std::vector<uint64_t>{1}; });
  Start(1, Endless());
  for (int i : {0, 2}) Await(i, "Node b is there and reads its data shard 1 by itself again\n");
  AwaitIteration(1, Iteration(0) + 100);
  StopAll();
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
  const CommandResult top = Process({Binary(), "top", "--once", "--peers"}).Wait();
  EXPECT_EQ(top.status, 0) << top.errors;
  for (const char* node : {"a", "b"}) {
    EXPECT_CONTAINS(top.output, StrCat(" on test/", node, " (pid "));
    EXPECT_CONTAINS(top.output, StrCat("\n    ", node, "  "));  // as the peer of the other node
  }
  const CommandResult json = Process({Binary(), "top", "--once", "--json"}).Wait();
  EXPECT_CONTAINS(json.output, "\"peer a on lan\":{\"frames_sent\":");
  EXPECT_CONTAINS(json.output, "\"segment lan\":{\"members\":2,");
  for (int i = 0; i < 2; ++i) nodes_[i]->Signal(SIGINT);
  for (int i = 0; i < 2; ++i) Finish(i);
}

// Nice value of the thread with this name; none if there is no such thread.
std::optional<int> NiceValueOf(int pid, const std::string& thread) {
  for (const auto& task : std::filesystem::directory_iterator(StrCat("/proc/", pid, "/task"))) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == thread) return getpriority(PRIO_PROCESS, std::stoi(task.path().filename()));
  }
  return std::nullopt;
}

TEST_F(ClusterOfMachines, SegmentsRunBeforeSolvers) {
  Build(2);
  WriteTopology("transport: \"udp\"");
  StartAll(Endless());
  AwaitIteration(0, 100);
  const std::optional<int> segment = NiceValueOf(nodes_[0]->pid(), "segment-lan");
  const std::optional<int> solver = NiceValueOf(nodes_[0]->pid(), "solver-0");
  ASSERT_TRUE(segment && solver);
  // The privilege to create networks does not imply the privilege to set priorities.
  const bool refused =
      nodes_[0]->ErrorsSoFar().find("may not run before the solvers") != std::string::npos;
  EXPECT_EQ(*segment, refused ? *solver : std::max(*solver - 10, -20));
  for (int i : {0, 1}) nodes_[i]->Signal(SIGINT);
  for (int i : {0, 1}) Finish(i);
}

// Compares the data state in the nodes' parts of a snapshot with the nodes' logs.
class ResumedClusterOfMachines : public ClusterOfMachines {
 protected:
  // Number of batches that the node had trained on, according to its part of that snapshot.
  int64_t Trained(int node, int64_t iteration) const {
    const std::string state = StrCat(work_.Snapshot("run", iteration), ".solverstate");
    const caffe::StreamPosition at =
        LoadResumePoint(NodeStatePath(state, NameOf(node))).state.stream(0);
    return static_cast<int64_t>(at.next_batch()) - at.outstanding_size();
  }
  // Numbers of iterations that the node's only solver may have done when the state of its data was
  // taken for that snapshot. Counted in its log, which has a line per iteration.
  std::set<int64_t> LoggedUntil(int node, int64_t iteration, const std::string& log) const {
    const size_t saved =
        log.find(StrCat("run_iter_", iteration, ".", NameOf(node), ".solverstate"));
    EXPECT_NE(saved, std::string::npos) << log;
    const std::string before = log.substr(0, saved);
    // A node that completes the iteration saves after it. A node that learns of it from a peer
    // takes the state of its data at once, but the momentum of its solver only after the next
    // iteration, if there is one; the snapshot is written after that.
    const bool completes =
        before.find(StrCat("] Iteration ", iteration - 1, " (")) != std::string::npos;
    if (completes) return {Logged(before)};
    if (Logged(log) > Logged(before)) return {Logged(before) - 1};
    return {Logged(before) - 1, Logged(before)};
  }
  static int64_t Logged(const std::string& log) {
    int64_t lines = 0;
    for (size_t at = 0; (at = log.find(" iter/s, ", at)) != std::string::npos; ++at) ++lines;
    return lines;
  }
};

TEST_F(ResumedClusterOfMachines, ResumesWithTheDataOfEachNodeWhereItStood) {
  Build(2);
  WriteTopology("transport: \"udp\"");
  // Iterations long enough that only a few pass between the snapshots of the two nodes.
  SmallNet net = work_.Net();
  net.batch = 512;
  net.hidden = 128;
  net.convolution = true;
  work_.WriteNet(net);
  caffe::SolverParameter solver = Workspace::Solver(330);
  solver.set_base_lr(0.001f);  // 0.05 is too large for this net with two nodes
  solver.set_display(1);
  solver.set_snapshot(300);
  solver.set_snapshot_prefix(work_ / "run");
  StartAll(solver);
  std::array<int64_t, 2> at_300{};
  for (int i = 0; i < 2; ++i) {
    const std::string log = Finish(i).errors;
    at_300[i] = Trained(i, 300);
    EXPECT_TRUE(LoggedUntil(i, 300, log).contains(at_300[i])) << NameOf(i) << " " << at_300[i];
    EXPECT_EQ(Trained(i, 330), Logged(log)) << NameOf(i);
  }
  EXPECT_EQ(work_.FilesWith("run_iter_300.caffemodel").size(), 1u);
  solver.set_max_iter(630);
  for (int i = 0; i < 2; ++i) {
    Start(i, solver, "topology.prototxt", work_.Snapshot("run", 300) + ".solverstate");
  }
  for (int i = 0; i < 2; ++i) {
    const std::string log = Finish(i).errors;
    EXPECT_CONTAINS(log, StrCat("run_iter_300.", NameOf(i), ".solverstate at iteration 300"));
    EXPECT_TRUE(LoggedUntil(i, 600, log).contains(Trained(i, 600) - at_300[i]))
        << NameOf(i) << " " << Trained(i, 600) << " " << at_300[i];
    EXPECT_EQ(Trained(i, 630), at_300[i] + Logged(log)) << NameOf(i);
    EXPECT_GT(Logged(log), 0);
  }
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
  for (int i : {0, 2}) Await(i, "Node b is unresponsive on segment lan: no frame for 1 s");
  Start(1, Endless());
  Await(1, "Joined the run at iteration ");
  for (int i : {0, 2}) Await(i, "Node b is responsive again on segment lan");
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
  for (int i : {0, 1}) Await(i, "Node c is unresponsive on segment lan");
  AwaitIteration(0, Iteration(0) + 400);
  nodes_[2]->Signal(SIGCONT);
  // The node detects that it was excluded from the view and rejoins by listening.
  Await(2, "Segment lan: this node gives up its weights for those of the run");
  AwaitIteration(2, Iteration(0) + 40);
  nodes_[0]->Signal(SIGINT);
  const CommandResult left = Finish(0);
  EXPECT_CONTAINS(left.errors, "Left the cluster; the other nodes have all that this one did");
  EXPECT_EQ(Snapshots(), 0);  // the other nodes continue and will save
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
  AwaitIteration(2, Iteration(2) + 100);  // a partitioned node continues as well
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
  EXPECT_EQ(Snapshots(), 2);  // one per cluster
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

// A machine that boots may start its node before its network is up.
class NodeWithoutNetwork : public ClusterOfMachines {
 protected:
  void StartsOnce(const std::string& transport) {
    Build(2);
    WriteTopology(StrCat("transport: \"", transport, "\""));
    SetLink("down");
    Start(1, Endless());
    Await(1, "Waiting up to 60 s for the network");
    SetLink("up");
    Start(0, Endless());
    for (int i : {0, 1}) AwaitIteration(i, 100);
    StopAll();
  }

  void SetLink(const std::string& state) {
    network_->Run(1, {"ip", "link", "set", Network::DeviceOf(1), state});
  }
};

TEST_F(NodeWithoutNetwork, StartsOverUdpOnceTheNetworkIsUp) { StartsOnce("udp"); }

TEST_F(NodeWithoutNetwork, StartsOverRawEthernetOnceTheNetworkIsUp) { StartsOnce("packet"); }

TEST_F(NodeWithoutNetwork, EndsAtOnceWhenItIsStopped) {
  Build(2);
  WriteTopology("transport: \"udp\"");
  SetLink("down");
  Start(1, Endless());
  Await(1, "Waiting up to 60 s for the network");
  nodes_[1]->Signal(SIGTERM);
  EXPECT_CONTAINS(FinishWithError(1), "no route from");
}

}  // namespace
}  // namespace millrace::test
