// millrace bench: several processes on one machine measure the segments between them.
#include <google/protobuf/util/json_util.h>

#include <csignal>
#include <map>
#include <memory>

#include "proto/bench.pb.h"
#include "test/support/free_port.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class Bench : public testing::Test {
 protected:
  // Nodes a, b, ... at 127.0.0.1, 127.0.0.2, .... Senders wait for an unresponsive node up to
  // `silence_ms`, because a busy machine may delay it.
  void WriteTopology(int nodes, const std::string& fields = "", int silence_ms = 60'000) {
    std::string text = "name: \"trial\"\n";
    for (int i = 0; i < nodes; ++i) {
      text += StrCat("node { name: \"", static_cast<char>('a' + i), "\" address: \"127.0.0.", i + 1,
                     "\" }\n");
    }
    text += StrCat("segment { name: \"lan\" transport: \"udp\" port: ", FreePort(),
                   " peer_timeout_ms: 10000 option { key: \"silence_ms\" value: \"", silence_ms,
                   "\" } ", fields, " }\n");
    WriteFile(work_ / "topology.prototxt", text);
  }

  void Start(const std::string& node, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {"bench", Topology(), "--node=" + node});
    nodes_[node] = std::make_unique<Process>(Command(flags));
  }
  // As Start(), for a short measurement.
  void StartBrief(const std::string& node, const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--seconds=1", "--warmup=0.2", "--floats=20000"};
    flags.insert(flags.end(), more.begin(), more.end());
    Start(node, flags);
  }
  // Waits for all nodes and expects success.
  std::map<std::string, CommandResult> FinishAll() {
    std::map<std::string, CommandResult> results;
    for (const auto& [name, node] : nodes_) {
      results[name] = node->Wait();
      EXPECT_EQ(results[name].status, 0) << name << ": " << results[name].errors;
    }
    return results;
  }
  CommandResult Finish(const std::string& node) { return nodes_[node]->Wait(); }
  bool Await(const std::string& node, const std::string& log) {
    return WaitForLog(*nodes_[node], log);
  }
  std::string Topology() const { return "--topology=" + work_ / "topology.prototxt"; }

  static BenchResult Parse(const std::string& json) {
    BenchResult result;
    const auto status = google::protobuf::util::JsonStringToMessage(json, &result);
    EXPECT_TRUE(status.ok()) << status.ToString() << ": " << json;
    return result;
  }

  Workspace work_;
  std::map<std::string, std::unique_ptr<Process>> nodes_;
};

TEST_F(Bench, MeasuresALinkBothWays) {
  WriteTopology(2);
  for (const char* node : {"b", "a"}) StartBrief(node, {"--json"});
  auto ended = FinishAll();
  EXPECT_EQ(ended["b"].output, "");  // only one node prints
  const BenchResult result = Parse(ended["a"].output);
  EXPECT_EQ(result.cluster(), "trial");
  EXPECT_EQ(result.weights(), 20000);
  EXPECT_EQ(result.missing_size() + result.without_report_size(), 0);
  ASSERT_EQ(result.node_size(), 2);
  for (const BenchNodeResult& node : result.node()) {
    EXPECT_GE(node.seconds(), 1);
    EXPECT_GT(node.process_cpu_seconds(), 0);
    EXPECT_LT(node.load_cpu_seconds(), node.process_cpu_seconds());
    EXPECT_GT(node.process_cpu_seconds_per_gigabyte(), 0);
  }
  ASSERT_EQ(result.segment_size(), 1);
  const BenchSegmentResult& lan = result.segment(0);
  EXPECT_EQ(lan.transport(), "udp");
  ASSERT_EQ(lan.flow_size(), 2);
  for (const BenchFlow& flow : lan.flow()) {
    EXPECT_GT(flow.position_megabytes(), 0) << flow.from();
    EXPECT_GT(flow.difference_megabytes(), 0) << flow.from();
    EXPECT_GT(flow.frames(), 0) << flow.from();
    EXPECT_GT(flow.all_frames_sent(), 0) << flow.from();
    EXPECT_LT(flow.loss(), 0.02) << flow.from() << ": " << ended["a"].output;
    EXPECT_GT(flow.round_trip_ms_p50(), 0) << flow.from();
    EXPECT_GE(flow.round_trip_ms_p99(), flow.round_trip_ms_p50()) << flow.from();
  }
  for (const BenchEndResult& end : lan.end()) {
    EXPECT_GT(end.sweeps(), 0);
    EXPECT_GT(end.wire_megabytes_out(), 0);
    EXPECT_GT(end.megabytes_in(), 0);
    EXPECT_GT(end.thread_cpu_seconds_per_gigabyte(), 0);
    EXPECT_LE(end.thread_cpu(), 1.1);
    EXPECT_EQ(end.limited_by(), "");
  }
}

TEST_F(Bench, PrintsATableOfThreeNodesThatKeepsToThePace) {
  WriteTopology(3, "max_mbps: 4");
  for (const char* node : {"c", "b", "a"}) StartBrief(node);
  const CommandResult a = FinishAll()["a"];
  EXPECT_CONTAINS(a.output, "cluster trial: 20000 weights");
  EXPECT_CONTAINS(a.output, "segment lan: udp, mtu 1500, int8");
  for (const char* pair :
       {"a      b", "a      c", "b      a", "b      c", "c      a", "c      b"}) {
    EXPECT_CONTAINS(a.output, StrCat("\n  ", pair));
  }
  const auto shares = Matches(a.output, R"((\d+)% of max_mbps 4 Mb)");
  ASSERT_EQ(shares.size(), 3u) << a.output;
  for (const std::string& share : shares) {
    EXPECT_LT(std::stoi(share), 130) << a.output;
  }
}

TEST_F(Bench, TakesItsSizeFromANet) {
  WriteTopology(2);
  const std::string solver = "--solver=" + work_.Write("run", Workspace::Solver(2));
  const std::string model = "--model=" + work_ / "net.prototxt";
  Start("b", {"--seconds=0.1", "--warmup=0", model});
  Start("a", {"--seconds=0.1", "--warmup=0", solver, "--json"});
  const BenchResult result = Parse(FinishAll()["a"].output);  // both flags select the same net
  EXPECT_GT(result.weights(), 100);
  EXPECT_LT(result.weights(), 10000);
}

TEST_F(Bench, MeasuresWithThoseThatAreThereAndNamesTheOthers) {
  WriteTopology(3, "", 100);  // a long silence_ms would let the absent node a delay the others
  for (const char* node : {"c", "b"}) StartBrief(node, {"--wait=10"});
  const CommandResult b = FinishAll()["b"];
  EXPECT_CONTAINS(b.errors, "Waiting for a");
  EXPECT_CONTAINS(b.output, "\nnot there: a\n");
  EXPECT_CONTAINS(b.output, "\n  b      c");
}

TEST_F(Bench, ANodeAloneEndsAndSaysWhomItExpected) {
  WriteTopology(3);
  ExpectOneLine(Millrace({"bench", Topology(), "--node=b", "--wait=1"}),
                {"bench: ", "trial", "within 1 s: expected a and c"});
}

TEST_F(Bench, NodesOfAnotherSizeAreRefusedByName) {
  WriteTopology(2);
  Start("a", {"--floats=1024", "--wait=20"});
  Start("b", {"--floats=2048", "--wait=20"});
  // A node that bootstrapped before it met the other one stays alone.
  const CommandResult a = Finish("a"), b = Finish("b");
  EXPECT_EQ(a.status, 1);
  EXPECT_EQ(b.status, 1);
  EXPECT_CONTAINS(a.errors + b.errors, "has another net: ");
  EXPECT_EQ(a.output + b.output, "");
}

TEST_F(Bench, DoesNotJoinATraining) {
  WriteTopology(2);
  const std::string solver = work_.Write("run", Workspace::Solver(1'000'000'000));
  Process training(Command({"train", "--solver=" + solver, Topology(), "--node=b"}));
  ASSERT_TRUE(WaitForLog(training, "The run begins with the weights of this node"));
  // The refusal depends on the kind of run, not on the number of weights.
  for (const std::string& size :
       {"--model=" + work_ / "net.prototxt", std::string("--floats=64")}) {
    ExpectOneLine(Millrace({"bench", Topology(), "--node=a", size}),
                  {"bench: segment lan: node b has another net: ", "trains"});
  }
  EXPECT_TRUE(WaitForLog(training, "Refused: node a has another net: "));
  training.Signal(SIGINT);
  EXPECT_EQ(training.Wait().status, 0);
}

TEST_F(Bench, ASignalEndsItAndTheOthersLearnOfIt) {
  WriteTopology(2);
  for (const char* node : {"a", "b"}) Start(node, {"--floats=20000", "--seconds=600"});
  ASSERT_TRUE(Await("a", "Measuring with 2 nodes"));
  ASSERT_TRUE(Await("b", "Measuring with 2 nodes"));
  nodes_["a"]->Signal(SIGINT);
  ExpectOneLine(Finish("a"), {"bench: stopped by a signal"});
  ExpectOneLine(Finish("b"), {"bench: node a, which collects the reports, has gone"});
}

TEST_F(Bench, ASignalEndsTheWaitingToo) {
  WriteTopology(2);
  Start("b");
  ASSERT_TRUE(Await("b", "of cluster trial measures"));
  nodes_["b"]->Signal(SIGTERM);
  ExpectOneLine(Finish("b"), {"bench: stopped by a signal"});
}

// In any build, and with any number of GPUs.
TEST_F(Bench, SaysThatTheDeviceOfANodesMemoryIsNotThere) {
  WriteFile(work_ / "topology.prototxt",
            "name: 'trial'\nnode { name: 'a' address: '127.0.0.1'\n memory: 'cuda:99' }\n"
            "node { name: 'b' address: '127.0.0.2' }\nsegment { name: 'lan' transport: 'udp' }\n");
  const std::string line = "topology.prototxt:3: node[0].memory: cuda device 99";
  ExpectOneLine(Millrace({"bench", Topology(), "--node=a"}), {line});
  ExpectOneLine(
      Millrace({"train", Topology(), "--node=a", "--solver=examples/mnist/lenet_solver.prototxt"}),
      {line});
}

TEST_F(Bench, ValuesThatAreNoneAreNamedWithTheirFlag) {
  WriteTopology(2);
  const auto refused = [this](std::vector<std::string> flags,
                              const std::vector<std::string>& parts) {
    flags.insert(flags.begin(), {"bench", Topology(), "--node=a"});
    ExpectOneLine(Millrace(flags), parts);
  };
  ExpectOneLine(Millrace({"bench"}), {"--topology is missing"});
  ExpectOneLine(Millrace({"bench", Topology(), "--node=z"}), {"topology.prototxt", "z", "a, b"});
  ExpectOneLine(Millrace({"bench", Topology(), "--node=a", "b"}), {"1 arguments given"});
  refused({"--seconds=0"}, {"--seconds=0", "0.1 to 3600"});
  refused({"--seconds=nan"}, {"--seconds=nan"});
  refused({"--warmup=-1"}, {"--warmup=-1"});
  refused({"--wait=0"}, {"--wait=0"});
  refused({"--floats=-5"}, {"--floats=-5"});
  refused({"--floats=99999999999999"}, {"--floats=99999999999999"});
  refused({"--floats=5", "--model=m"}, {"--floats", "--model"});
  refused({"--solver=s", "--model=m"}, {"--model and --solver"});
  refused({"--model=" + work_ / "nowhere.prototxt"}, {"nowhere.prototxt"});
}

}  // namespace
}  // namespace millrace::test
