// Nodes that move: elastic clusters by an etcd on another machine, and host names.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/text/parse.h"
#include "control/etcd/etcd_store.h"
#include "test/netns/cluster_of_machines.h"
#include "test/support/etcd_server.h"

namespace millrace::test {
namespace {

constexpr int kPort = 2379;

class ElasticClusterOfMachines : public ClusterOfMachines {
 protected:
  void SetUp() override {
    ClusterOfMachines::SetUp();
    const std::string reason = EtcdServer::WhyNot();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  // The last machine runs etcd.
  void BuildElastic(int machines, const std::string& nodes) {
    Build(machines + 1);
    size_ = machines;
    node_range_ = nodes;
    etcd_ = std::make_unique<EtcdServer>(Network::AddressOf(machines), kPort);
    StartEtcd();
    WriteFile(work_ / "cluster.key", std::string(64, '7'));
    chmod((work_ / "cluster.key").c_str(), 0600);
    WriteFile(work_ / "segments.prototxt",
              "segment { name: 'lan' transport: 'udp' heartbeat_ms: 50 peer_timeout_ms: 1000 "
              "key_file: 'cluster.key' }\n");
  }
  void StartEtcd() {
    network_->Inside(size_, [this] { etcd_->Start(); });
  }

  void Join(int node, caffe::SolverParameter solver) {
    const std::string name = NameOf(node);
    const std::vector<std::string> command = {
        Binary(),
        "train",
        "--solver=" + work_.Write(name, std::move(solver)),
        "--topology=" + (work_ / "segments.prototxt"),
        StrCat("--rendezvous=etcd://", etcd_->endpoint(), "/run?lease=3"),
        "--nodes=" + node_range_,
        "--metrics=" + (work_ / (name + ".jsonl"))};
    Inside(node, [&] { nodes_[node] = std::make_unique<Process>(command); });
  }

  // The keys of the run.
  std::vector<RegistryEntry> Keys() {
    std::vector<RegistryEntry> entries;
    RendezvousConfig config;
    config.endpoints = {etcd_->endpoint()};
    network_->Inside(size_, [&] { entries = EtcdStore(config, false).Read("run/"); });
    return entries;
  }
  // Cuts the machine off from etcd, or not any more.
  void CutFromEtcd(int machine, bool cut) {
    const std::string port = std::to_string(kPort);
    for (const char* side : {"--dport", "--sport"}) {
      network_->Run(machine, {"iptables", cut ? "-A" : "-D", side[2] == 'd' ? "OUTPUT" : "INPUT",
                              "-p", "tcp", side, port, "-j", "DROP"});
    }
  }

  // Waits until the node misses etcd. It also says of nodes that the run goes on without them.
  void AwaitEtcdMissed(int node) {
    AwaitThat(node, "misses etcd", [&] {
      std::istringstream lines(nodes_[node]->ErrorsSoFar());
      for (std::string line; std::getline(lines, line);) {
        const bool is_of_a_node = line.find(" is unresponsive on segment ") != line.npos;
        if (!is_of_a_node && line.ends_with("; the run goes on without it")) return true;
      }
      return false;
    });
  }

  static int CountOf(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
    return count;
  }
  // Counts runs begun in the logs of all nodes.
  int Bootstraps() const {
    std::string all = logs_;
    for (const auto& [node, process] : nodes_) all += process->ErrorsSoFar();
    return CountOf(all, "The run begins with the weights of this node");
  }

  std::string node_range_;
  std::unique_ptr<EtcdServer> etcd_;
};

TEST_F(ElasticClusterOfMachines, TrainsWhileNodesJoinDieAndMoveAndEtcdRestarts) {
  BuildElastic(5, "3:4");
  for (int i = 0; i < 2; ++i) Join(i, Endless());
  for (int i = 0; i < 2; ++i) Await(i, "Waiting for nodes: ");
  EXPECT_EQ(Bootstraps(), 0);
  Join(2, Endless());
  for (int i = 0; i < 3; ++i) AwaitIteration(i, 50);
  EXPECT_EQ(Bootstraps(), 1);

  // A late node takes the weights of the run.
  Join(3, Endless());
  Await(3, "Joined the run at iteration ");
  Await(3, "Registered as node n3 at " + Network::AddressOf(3));
  AwaitIteration(3, Iteration(3) + 50);

  // All ids are taken until the lease of d has ended; then e has that id, at another address.
  Kill(3);
  Join(4, Endless());
  Await(4, "All 4 node ids of the run are taken");
  Await(4, "Registered as node n3 at " + Network::AddressOf(4));
  Await(4, "Joined the run at iteration ");
  for (int i = 0; i < 3; ++i) {
    Await(i, "node n3 is at " + Network::AddressOf(4) + ":");
    AwaitIteration(i, Iteration(i) + 50);
  }

  etcd_->Stop();
  for (const int i : {0, 1, 2, 4}) AwaitEtcdMissed(i);
  for (const int i : {0, 1, 2, 4}) AwaitIteration(i, Iteration(i) + 50);
  StartEtcd();
  for (const int i : {0, 1, 2, 4}) Await(i, "The registry of the run answers again");
  for (const int i : {0, 1, 2, 4}) AwaitIteration(i, Iteration(i) + 50);

  StopAll();
  EXPECT_EQ(Bootstraps(), 1);
  // No node was restarted or reset, and each that was not first has joined once.
  EXPECT_EQ(CountOf(logs_, "Joined the run at iteration "), 3);
  EXPECT_TRUE(Keys().empty());
}

// The transcript in docs/operations.md, with its commands and addresses. "NAME$ COMMAND" starts a
// program on machine NAME, "NAME: LINE" is a line of its log, and "NAME^C" stops it. Lines of one
// machine are in their order; the numbers of iterations vary.
class TranscriptOfAnElasticRun : public ElasticClusterOfMachines {
 protected:
  void Play(const std::string& line) {
    SCOPED_TRACE(line);
    const size_t end = line.find_first_of("$:^");
    const std::string name = line.substr(0, end);
    const int machine = name == "etcd" ? size_ : name[0] - 'a';
    const std::string text = line.substr(std::min(line.size(), end + 2));
    if (line[end] == '$') {
      Inside(machine, [&] { nodes_[machine] = std::make_unique<Process>(CommandOf(text, name)); });
      read_[machine] = 0;
    } else if (line[end] == ':') {
      AwaitThat(machine, "says this after what came before", [&] {
        const std::string log = WithoutIterations(nodes_[machine]->ErrorsSoFar());
        const std::string part = WithoutIterations(text) + "\n";
        const size_t found = log.find(part, read_[machine]);
        if (found != log.npos) read_[machine] = found + part.size();
        return found != log.npos;
      });
    } else {
      nodes_[machine]->Signal(SIGINT);
    }
  }

  // Machines 10.0.0.1, 10.0.0.2, ... of the page are those of the test.
  static std::string ReadTranscript() {
    const std::string page = ReadFile("docs/operations.md"), begin = "```text\netcd$ ";
    const size_t first = page.find(begin) + std::string("```text\n").size();
    EXPECT_NE(page.find(begin), page.npos);
    return std::regex_replace(page.substr(first, page.find("```", first) - first),
                              std::regex("10[.]0[.]0[.]"), "10.99.0.");
  }

 private:
  std::vector<std::string> CommandOf(const std::string& text, const std::string& name) {
    std::vector<std::string> words = Split(text, ' ');
    for (std::string& word : words) {
      if (word == "etcd") word = "/usr/bin/etcd";
      if (word == "millrace") word = Binary();
      if (word == "--data-dir=registry") word = "--data-dir=" + (work_ / "registry");
      if (word == "--solver=solver.prototxt") word = "--solver=" + work_.Write(name, Endless());
    }
    return words;
  }
  static std::string WithoutIterations(const std::string& text) {
    return std::regex_replace(text, std::regex("iteration [0-9]+"), "iteration N");
  }

  std::map<int, size_t> read_;  // of each machine's log
};

TEST_F(TranscriptOfAnElasticRun, IsWhatHappens) {
  Build(4);
  size_ = 3;
  const std::vector<std::string> lines = Split(ReadTranscript(), '\n');
  EXPECT_GT(lines.size(), 10u);
  for (const std::string& line : lines) {
    if (!line.empty()) Play(line);
    if (HasFatalFailure()) return;
  }
  // Nodes that the transcript stops have ended; the others go on.
  for (const std::string& line : lines) {
    if (line.ends_with("^C")) Finish(line[0] - 'a');
  }
  nodes_[size_]->Signal(SIGTERM);
  nodes_[size_]->Wait();
  nodes_.erase(size_);
  StopAll();
}

// One of two nodes that start at once is cut off from etcd once it has registered. Whoever begins,
// the other joins.
TEST_F(ElasticClusterOfMachines, BeginsOneRunWhenOneOfTwoRegisteredNodesIsCutOffFromEtcd) {
  const std::string reason = Network::WhyNoLoss();
  if (!reason.empty()) GTEST_SKIP() << reason;
  BuildElastic(2, "2:2");
  for (int i = 0; i < 2; ++i) Join(i, Endless());
  Await(1, "Registered as node n");
  CutFromEtcd(1, true);
  AwaitEtcdMissed(1);
  CutFromEtcd(1, false);
  for (int i = 0; i < 2; ++i) AwaitIteration(i, 50);
  StopAll();
  EXPECT_EQ(Bootstraps(), 1);
  EXPECT_EQ(CountOf(logs_, "Joined the run at iteration "), 1);
}

// The same before it registers: the other node trains alone meanwhile.
TEST_F(ElasticClusterOfMachines, BeginsOneRunWhenOneOfTwoNewNodesIsCutOffFromEtcd) {
  const std::string reason = Network::WhyNoLoss();
  if (!reason.empty()) GTEST_SKIP() << reason;
  BuildElastic(2, "1:2");
  CutFromEtcd(1, true);
  for (int i = 0; i < 2; ++i) Join(i, Endless());
  Await(1, "; waits for it, Ctrl-C stops");
  AwaitIteration(0, 50);
  CutFromEtcd(1, false);
  Await(1, "Joined the run at iteration ");
  for (int i = 0; i < 2; ++i) AwaitIteration(i, 100);
  StopAll();
  EXPECT_EQ(Bootstraps(), 1);
  EXPECT_EQ(CountOf(logs_, "Joined the run at iteration "), 1);
  EXPECT_TRUE(Keys().empty());
}

// Two nodes cannot reach each other: one of them trains to its end, and the other one, which never
// had the weights, ends with it.
TEST_F(ElasticClusterOfMachines, EndsANodeThatWaitsForARunThatHasEnded) {
  const std::string reason = Network::WhyNoLoss();
  if (!reason.empty()) GTEST_SKIP() << reason;
  BuildElastic(2, "2:2");
  network_->Run(1, {"iptables", "-A", "INPUT", "-p", "udp", "-j", "DROP"});
  for (int i = 0; i < 2; ++i) Join(i, Workspace::Solver(300));
  std::vector<std::string> logs;
  for (int i = 0; i < 2; ++i) {
    const CommandResult result = nodes_[i]->Wait();
    EXPECT_EQ(result.status, 0) << result.errors;
    logs.push_back(result.errors);
  }
  nodes_.clear();
  const int first = CountOf(logs[0], "The run begins with the weights of this node") == 1 ? 0 : 1;
  EXPECT_EQ(CountOf(logs[first], "Optimization Done."), 1) << logs[first];
  EXPECT_EQ(CountOf(logs[1 - first], "The run has ended before this node had its weights."), 1)
      << logs[1 - first];
  EXPECT_TRUE(Keys().empty());
}

// Two nodes that start at once reach etcd, but not each other: without a registry each would begin
// a run.
TEST_F(ElasticClusterOfMachines, BeginsOneRunWhenTwoNodesCannotReachEachOther) {
  const std::string reason = Network::WhyNoLoss();
  if (!reason.empty()) GTEST_SKIP() << reason;
  BuildElastic(2, "1:2");
  network_->Run(1, {"iptables", "-A", "INPUT", "-p", "udp", "-j", "DROP"});
  for (int i = 0; i < 2; ++i) Join(i, Endless());
  for (int i = 0; i < 2; ++i) Await(i, "node n");
  const auto begun = [this] { return Bootstraps() > 0; };
  AwaitThat(0, "begins, nor the other", begun);
  const int first =
      Iteration(0) >= 0 || CountOf(nodes_[0]->ErrorsSoFar(), "The run begins") ? 0 : 1;
  AwaitIteration(first, 2000);  // longer than a node waits for others before it begins a run
  EXPECT_EQ(Bootstraps(), 1);
  network_->Run(1, {"iptables", "-D", "INPUT", "-p", "udp", "-j", "DROP"});
  Await(1 - first, "Joined the run at iteration ");
  AwaitIteration(1 - first, Iteration(1 - first) + 50);
  StopAll();
  EXPECT_EQ(Bootstraps(), 1);
}

// Nodes of a topology with host names, on machines whose names are in a file of the test.
class ClusterOfNames : public ClusterOfMachines {
 protected:
  void Inside(int node, const std::function<void()>& start) override {
    network_->Inside(machines_.at(node), start);
  }
  void NameMachines() {
    std::string hosts = "127.0.0.1 localhost\n";
    for (const auto& [node, machine] : machines_) {
      hosts += StrCat(Network::AddressOf(machine), " host-", NameOf(node), "\n");
    }
    WriteFile(work_ / "hosts", hosts);
  }
  void StartNamed(int node) {
    Start(node, Endless(), "topology.prototxt", "",
          {"/usr/bin/unshare", "-m", "sh", "-c",
           "mount --bind '" + (work_ / "hosts") + "' /etc/hosts && exec \"$@\"", "sh"});
  }

  std::map<int, int> machines_ = {{0, 0}, {1, 1}};
};

TEST_F(ClusterOfNames, FindsANodeWhoseNameHasAnotherAddress) {
  Build(3);
  size_ = 2;
  NameMachines();
  WriteFile(work_ / "topology.prototxt",
            "name: 'test' node { name: 'a' address: 'host-a' } node { name: 'b' address: 'host-b' "
            "} segment { name: 'lan' transport: 'udp' heartbeat_ms: 50 peer_timeout_ms: 1000 }\n");
  for (int i = 0; i < 2; ++i) StartNamed(i);
  for (int i = 0; i < 2; ++i) AwaitIteration(i, 50);
  Kill(1);
  std::filesystem::remove(work_ / "b.jsonl");
  machines_[1] = 2;
  NameMachines();
  StartNamed(1);
  Await(0, "node b is at " + Network::AddressOf(2) + ":");
  Await(0, "Node b is responsive again on segment lan");
  for (int i = 0; i < 2; ++i) AwaitIteration(i, Iteration(i) + 50);
  StopAll();
}

}  // namespace
}  // namespace millrace::test
