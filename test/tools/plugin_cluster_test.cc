// Plugins that take part in a cluster: the merge rule and the transport of docs/guides, built with
// an installed copy and trained with by two processes.
#include <array>

#include "test/support/free_port.h"
#include "test/support/problem.h"
#include "test/tools/installed.h"

namespace millrace::test {
namespace {

class PluginCluster : public Installed {
 protected:
  // Iterations that last as long as an exchange, so that the nodes learn together.
  PluginCluster() {
    SmallNet net = work_.Net();
    net.batch = 256;
    work_.WriteNet(net);
  }
  // Two nodes over UDP, with further fields of their segment.
  std::string WriteUdp(const std::string& fields) const {
    return Write(StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }\n",
                        "node { name: 'b' address: '127.0.0.2' }\n",
                        "segment { name: 's' transport: 'udp' port: ", FreePort(), "\n", fields,
                        " }\n"));
  }
  std::string Write(const std::string& topology) const {
    WriteFile(work_ / "topology.prototxt", topology);
    return "--topology=" + (work_ / "topology.prototxt");
  }
  std::vector<std::string> Train(const std::string& node,
                                 const std::vector<std::string>& flags) const {
    const std::string solver = work_.Write(node, Workspace::Tested(Workspace::Solver(2000), 2000));
    std::vector<std::string> command = {"train", "--solver=" + solver, "--node=" + node};
    command.insert(command.end(), flags.begin(), flags.end());
    return InstalledCommand(command);
  }
  // Trains with both nodes. They have to end with the same weights, which have learned the problem.
  void TrainWithBoth(const std::vector<std::string>& flags) const {
    Process a(Train("a", flags)), b(Train("b", flags));
    const std::array<CommandResult, 2> results = {a.Wait(), b.Wait()};
    std::string accuracy;
    for (const CommandResult& result : results) {
      EXPECT_EQ(result.status, 0) << result.errors;
      const std::vector<std::string> values = Matches(result.output, "accuracy = ([0-9.]+)");
      ASSERT_FALSE(values.empty()) << result.output;
      EXPECT_GE(std::stod(values.back()), 0.9);
      EXPECT_EQ(accuracy.empty() ? values.back() : accuracy, values.back());
      accuracy = values.back();
    }
    EXPECT_EQ(work_.FilesWith("a_iter_2000.caffemodel").size() +
                  work_.FilesWith("b_iter_2000.caffemodel").size(),
              1u);
  }
  // Expects that node a refuses its flags in one line.
  void ExpectRefused(const std::vector<std::string>& flags,
                     const std::vector<std::string>& parts) const {
    ExpectOneLine(test::Run(Train("a", flags)), parts);
  }

  Workspace work_;
};

TEST_F(PluginCluster, TrainsWithAMergeRule) {
  const std::string plugin = "--plugins=" + Plugin("elastic_rule");
  TrainWithBoth(
      {plugin,
       WriteUdp(
           "merge_rule: 'elastic' merge_rule_param { key: 'pull' value: 0.4 } codec: 'int8'")});
}

TEST_F(PluginCluster, RefusesAMergeRuleByFileAndLine) {
  const std::string plugin = "--plugins=" + Plugin("elastic_rule");
  ExpectRefused({WriteUdp("merge_rule: 'elastic'")},
                {"topology.prototxt:4: segment[0].merge_rule: \"elastic\" given, expected one of "
                 "additive, average, cgad, decayed, delay_compensated, easgd, gap_aware, heloco, "
                 "mla, outer, staleness"});
  ExpectRefused(
      {plugin, WriteUdp("merge_rule: 'elastic'\nmerge_rule_param { key: 'push' }")},
      {"topology.prototxt:5: segment[0].merge_rule_param[0].key: \"push\" given, expected "
       "one of pull, rest with merge rule elastic"});
  ExpectRefused(
      {plugin, WriteUdp("merge_rule: 'elastic'\nmerge_rule_param { key: 'pull' value: 0.6 }")},
      {"topology.prototxt:5: segment[0].merge_rule_param[0].value: 0.6 given, expected 0.05 to 0.5 "
       "for pull"});
}

TEST_F(PluginCluster, RefusesTwoMergeRulesOfOneName) {
  const std::string plugin = Plugin("elastic_rule"), second = folder_ / "second.so";
  std::filesystem::copy(plugin, second);
  ExpectRefused({"--plugins=" + plugin + "," + second},
                {"--plugins: ",
                 "second.so: merge rule elastic: two of them have this name, expected "
                 "one"});
}

TEST_F(PluginCluster, ListsATransportOfAPlugin) {
  const CommandResult without = InstalledMillrace({"transports"});
  EXPECT_EQ(without.output.find("unix"), std::string::npos);
  const CommandResult result =
      InstalledMillrace({"transports", "--plugins=" + Plugin("unix_transport")});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output,
                  "unix: Unix datagram sockets between processes of one machine\n"
                  "  topology: node.option socket\n"
                  "  options: socket, peers, max_frame_bytes, send_buffer_bytes\n");
}

TEST_F(PluginCluster, ATransportOfAPluginPassesTheSuite) {
  const std::string plugin = Plugin("unix_transport"), suite = folder_ / "suite";
  // The suite, and the sources that its helpers need. All headers in millrace/ are the installed
  // ones.
  const std::string sources =
      "test/conformance/installed/unix_transport.cc test/support/support.cc "
      "src/base/{error,files/file,process_identity,rng,text/utf8}.cc ";
  const CommandResult built =
      Shell("g++ -std=c++20 -O1 -Wall -Wextra -I" + prefix_ + "/include -Isrc -I. " + sources +
            "-Wl,--no-as-needed " + plugin +
            " $(pkg-config --cflags --libs millrace) -lgtest -lglog -pthread -o " + suite);
  ASSERT_EQ(built.status, 0) << built.errors;
  const CommandResult result = Shell(suite);
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
  EXPECT_CONTAINS(result.output, "[  PASSED  ]");
  EXPECT_CONTAINS(result.output, "Unix/TransportTest.TwoThreadsHammerEachOther/Unix");
}

TEST_F(PluginCluster, TrainsOverATransport) {
  const std::string plugin = "--plugins=" + Plugin("unix_transport");
  const auto topology = [&](const std::string& a, const std::string& b) {
    return Write("name: 'c'\nnode { name: 'a' " + a + " }\nnode { name: 'b' " + b +
                 " }\nsegment { name: 's' transport: 'unix' mtu: 4000 }\n");
  };
  const auto named = [](const std::string& name) {
    return StrCat("option { key: 'socket' value: 'millrace_test.", getpid(), ".", name, "' }");
  };
  TrainWithBoth({plugin, topology(named("a"), named("b"))});
  ExpectRefused({topology(named("a"), named("b"))},
                {"topology.prototxt:2: node[0].option[0].key: \"socket\" given"});
  ExpectRefused(
      {plugin, topology(named("a"), "address: '127.0.0.2'")},
      {"topology.prototxt:3: node[1].option: missing, expected the name of the sockets of "
       "\"b\" for the unix segment \"s\": option \"socket\""});
}

TEST_F(PluginCluster, RefusesTwoTransportsOfOneName) {
  const std::string plugin = Plugin("unix_transport"), second = folder_ / "second.so";
  std::filesystem::copy(plugin, second);
  ExpectRefused({"--plugins=" + plugin + "," + second},
                {"second.so: transport unix: two of them have this name, expected one"});
}

}  // namespace
}  // namespace millrace::test
