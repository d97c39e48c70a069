// Checks the examples of docs/topology.md against the parser.
#include <gtest/gtest.h>

#include <sstream>

#include "base/files/file.h"
#include "test/topology/topology_support.h"
#include "topology/plan.h"

namespace millrace::test {
namespace {

// The examples, in page order.
std::vector<Topology> Examples() {
  std::vector<Topology> examples;
  std::istringstream page(ReadFile("docs/topology.md"));
  std::string text;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (inside && line == "```") {
      examples.push_back(
          ParseTopology(text, StrCat("example ", examples.size()), {"packet", "udp", "verbs"}));
      inside = false;
    } else if (line == "```prototxt") {
      text.clear();
      inside = true;
    } else {
      text += line + "\n";
    }
  }
  return examples;
}

// A machine with the interface that the node's packet segments require.
Machine MachineOf(const TopologyNode& node) {
  const TopologyAdapter adapter = node.adapters[0];
  return {[adapter] {
            const std::string name = adapter.interface == adapter.mac ? "eth1" : adapter.interface;
            return std::vector<NetworkInterface>{{name, adapter.mac, 9000}};
          },
          [](const std::string&, const std::string&) { return std::string(); },
          [](DeviceType, int) {}};
}

TEST(TopologyDoc, HasExamplesThatParse) {
  std::vector<std::string> names;
  for (const Topology& topology : Examples()) names.push_back(topology.name);
  EXPECT_EQ(names, (std::vector<std::string>{"pair", "rack", "two-racks", "twin", "gpus"}));
}

TEST(TopologyDoc, HasAPlanForEachNode) {
  for (const Topology& topology : Examples()) {
    for (size_t i = 0; i < topology.nodes.size(); ++i) {
      const NodePlan plan = PlanFor(topology, static_cast<NodeId>(i), MachineOf(topology.nodes[i]));
      EXPECT_FALSE(plan.segments.empty()) << topology.name << " " << plan.name;
      for (const std::string& notice : plan.notices) {
        EXPECT_CONTAINS(notice, topology.scales_rate ? " merges by the rule average, "
                                                     : " merges by the rule additive: ");
      }
    }
  }
}

TEST(TopologyDoc, SaysWhatItsExamplesDo) {
  const std::vector<Topology> examples = Examples();
  ASSERT_EQ(examples.size(), 5u);
  const TopologySegment& rack = examples[1].segments[0];
  EXPECT_EQ(rack.mtu, 9000);
  EXPECT_EQ(rack.nodes.size(), 4u);
  EXPECT_EQ(rack.codec.codec, Codec::kInt8);
  // The first machine of each rack is in two segments, the others in one.
  const Topology& tree = examples[2];
  std::vector<size_t> segments;
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    segments.push_back(
        PlanFor(tree, static_cast<NodeId>(i), MachineOf(tree.nodes[i])).segments.size());
  }
  EXPECT_EQ(segments, (std::vector<size_t>{2, 1, 1, 2, 1}));
  const Topology& twin = examples[3];
  EXPECT_EQ(RangeOf(twin.segments[0], 1001), (WeightRange{0, 501}));
  EXPECT_EQ(RangeOf(twin.segments[1], 1001), (WeightRange{501, 1001}));
  const NodePlan plan = PlanFor(twin, 1, MachineOf(twin.nodes[1]));
  EXPECT_EQ(plan.segments[0].transport.options.at("address"), "10.0.0.2:29448");
  EXPECT_EQ(plan.segments[1].transport.options.at("address"), "10.0.1.2:29448");
  const Topology& gpus = examples[4];
  EXPECT_EQ(PlanFor(gpus, 1, MachineOf(gpus.nodes[1])).memory.type, DeviceType::kCuda);
  EXPECT_TRUE(gpus.nodes[2].memory.on_host());
}

TEST(TopologyDoc, ListsTheMergeRules) {
  const std::string page = ReadFile("docs/topology.md");
  for (const std::string& name : MergeRuleRegistry::Get().Names()) {
    const MergeRuleDescriptor& rule = *MergeRuleRegistry::Get().Find(name);
    std::string parameters;
    for (const PartParameter& each : rule.parameters) {
      parameters += StrCat(parameters.empty() ? "" : ", ", each.name, " (", each.default_value,
                           "; ", each.least, " to ", each.most, ")");
    }
    EXPECT_CONTAINS(page, StrCat("| ", name, " | ", parameters.empty() ? "none" : parameters, " | ",
                                 rule.state_floats, " | ", rule.RestDistance({}), " |"));
  }
}

TEST(TopologyDoc, ShowsAnErrorAsItIs) {
  const std::string text =
      "name: 'pair'\nnode { name: 'a' address: 'a' }\nnode { name: 'b' address: 'b' }\n"
      "segment {\n  name: 'lan'\n  transport: 'udp' node: 'a'\n  node: 'c'\n}\n";
  EXPECT_CONTAINS(ReadFile("docs/topology.md"),
                  ErrorOf([&] { ParseTopology(text, "cluster.prototxt", kTransports); }));
}

}  // namespace
}  // namespace millrace::test
