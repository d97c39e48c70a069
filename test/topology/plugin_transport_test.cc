// The transport of docs/guides/transport.md in topology files: locates nodes by an option, stays on
// the machine, and its mistakes are refused with file and line.
#include <gtest/gtest.h>

#include "examples/extend/unix_transport.cc"
#include "test/topology/topology_support.h"
#include "topology/plan.h"

namespace millrace::test {
namespace {

using Options = std::map<std::string, std::string>;

std::string Node(const std::string& name, const std::string& fields) {
  return "node { name: '" + name + "' " + fields + " }\n";
}
std::string Socket(const std::string& name) {
  return "option { key: 'socket' value: '" + name + "' }";
}
Topology ParseUnix(const std::string& nodes, const std::string& segment = "") {
  return ParseTopology(
      "name: 'n'\n" + nodes + "segment { name: 's' transport: 'unix' " + segment + " }\n", "f",
      TransportsForTopologies());
}
std::string UnixError(const std::string& nodes, const std::string& segment = "") {
  return ErrorOf([&] { ParseUnix(nodes, segment); });
}
const std::string kNodes = Node("a", Socket("run.a")) + Node("b", Socket("run.b"));

TEST(PluginTransport, IsPlannedFromATopologyFile) {
  const Topology topology = ParseUnix(kNodes, "mtu: 16000");
  EXPECT_EQ(topology.segments[0].max_frame_bytes, 16000);
  const NodePlan plan = PlanFor(topology, 1);
  EXPECT_EQ(plan.segments[0].transport.options,
            (Options{{"socket", "run.b"}, {"peers", "0=run.a"}, {"max_frame_bytes", "16000"}}));
  EXPECT_TRUE(plan.warnings.empty());  // no network, so no key is needed
  const Topology more = ParseUnix(kNodes, "option { key: 'send_buffer_bytes' value: '200000' }");
  EXPECT_EQ(PlanFor(more, 0).segments[0].transport.options.at("send_buffer_bytes"), "200000");
}

TEST(PluginTransport, RefusesAnAddressOfAnotherKind) {
  EXPECT_EQ(UnixError(Node("a", "address: '10.0.0.1'") + Node("b", "address: '10.0.0.2'")),
            "f:2: node[0].option: missing, expected the name of the sockets of \"a\" for the unix "
            "segment \"s\": option \"socket\"");
  const std::string long_name(97, 'x');
  EXPECT_EQ(UnixError(Node("a", Socket(long_name))),
            "f:2: node[0].option[0].value: \"" + long_name +
                "\" given, expected the socket name of an endpoint");
  EXPECT_EQ(UnixError(Node("a", Socket("a,b"))),
            "f:2: node[0].option[0].value: \"a,b\" given, expected the socket name of an endpoint");
  EXPECT_EQ(UnixError(Node("a", Socket("x")) + Node("b", Socket("x"))),
            "f:3: node[1].option: x is the socket name of node \"a\" too, in segment \"s\"; "
            "expected another for \"b\"");
}

TEST(PluginTransport, RefusesOptionsThatItDoesNotTake) {
  EXPECT_EQ(UnixError(kNodes, "port: 7"),
            "f:4: segment[0].port: given, but transport \"unix\" has no ports; expected it with "
            "\"udp\" or \"verbs\" only");
  EXPECT_EQ(UnixError(kNodes, "option { key: 'gso' value: '1' }"),
            "f:4: segment[0].option[0].key: \"gso\" given, expected an option of unix: "
            "send_buffer_bytes");
  EXPECT_EQ(UnixError(kNodes, "option { key: 'peers' value: '1' }"),
            "f:4: segment[0].option[0].key: \"peers\" given, which follows from the file's other "
            "fields; expected another");
}

}  // namespace
}  // namespace millrace::test
