// Topologies of elastic clusters: segments only, and nodes without addresses.
#include <gtest/gtest.h>

#include "millrace/transport_registry.h"
#include "test/topology/topology_support.h"
#include "topology/plan.h"

namespace millrace::test {
namespace {

Topology Elastic(const std::string& text, int max_nodes = 3) {
  return ParseElasticTopology(text, "f", "run1", max_nodes, kTransports);
}
std::string ElasticError(const std::string& text) {
  return ErrorOf([&] { Elastic(text); });
}

TEST(ElasticTopology, HasNodesAndASegmentByDefault) {
  const Topology topology = Elastic("shard_data: true");
  EXPECT_EQ(topology.name, "run1");
  ASSERT_EQ(topology.nodes.size(), 3u);
  EXPECT_EQ(topology.nodes[2].name, "n2");
  ASSERT_EQ(topology.segments.size(), 1u);
  EXPECT_EQ(topology.segments[0].transport, "udp");
  EXPECT_EQ(topology.segments[0].nodes, (std::vector<NodeId>{0, 1, 2}));
  EXPECT_EQ(topology.digest, Elastic("shard_data: true").digest);
  EXPECT_NE(topology.digest, Elastic("shard_data: true", 4).digest);
}

TEST(ElasticTopology, TakesTheSegmentsOfItsFile) {
  const Topology topology = Elastic(
      "name: 'c' segment { name: 'x' transport: 'udp' range_end: 0.5 }\n"
      "segment { name: 'y' transport: 'udp' port: 29449 range_begin: 0.5 }");
  EXPECT_EQ(topology.name, "c");
  EXPECT_EQ(topology.segments[1].nodes.size(), 3u);
}

TEST(ElasticTopology, RefusesWhatNamesNodes) {
  EXPECT_EQ(
      ElasticError("node { name: 'a' }"),
      "f:1: node[0]: given, but the nodes come from the registry of --rendezvous; expected no "
      "nodes");
  EXPECT_EQ(ElasticError("segment { name: 's' transport: 'packet' }"),
            "f:1: segment[0].transport: \"packet\" given, which cannot change the addresses of "
            "nodes while it runs; expected udp with --rendezvous");
  EXPECT_EQ(ElasticError("segment { name: 's' transport: 'udp' node: 'n0' node: 'n1' }"),
            "f:1: segment[0].node: given, but with --rendezvous every segment joins all nodes; "
            "expected none");
  EXPECT_EQ(
      ElasticError("segment { name: 's' transport: 'udp' adapter: 'x' }"),
      "f:1: segment[0].adapter: given, but with --rendezvous nodes have one address; expected "
      "none");
  EXPECT_EQ(ElasticError("segment { name: 's' transport: 'udp' range_end: 0.5 }\n"
                         "segment { name: 't' transport: 'udp' range_begin: 0.5 }"),
            "f:2: segment[1].port: 29448 is the port of segment \"s\" already, expected another");
}

TEST(ElasticTopology, PlansANodeWhosePeersHaveNoAddressesYet) {
  Topology topology = Elastic("shard_data: true");
  topology.nodes[1].adapters[0].address = "10.0.0.2";
  const NodePlan plan = PlanFor(topology, 1);
  const auto& options = plan.segments.at(0).transport.options;
  EXPECT_EQ(options.at("address"), "10.0.0.2:29448");
  EXPECT_EQ(options.at("peers"), "0=,2=");
}

}  // namespace
}  // namespace millrace::test
