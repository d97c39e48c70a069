// A transport that registers itself, with an address key of its own, is used from a topology file
// without a change elsewhere.
#include <gtest/gtest.h>

#include "base/text/parse.h"
#include "cluster/sweep_estimate.h"
#include "millrace/transport_registry.h"
#include "test/topology/topology_support.h"
#include "topology/plan.h"
#include "transport/loopback/transport.h"

namespace millrace::test {
namespace {

constexpr int64_t kFlagBytes = 100;

TransportDescriptor SemaphoreDescriptor() {
  TransportDescriptor semaphore;
  semaphore.name = "semaphore";
  semaphore.description = "flags on hills";
  semaphore.reach = TransportReach::kNetwork;
  semaphore.addressing.keys = {
      {.name = "hill",
       .noun = "hill",
       .expected = "the hill of $ in",
       .is_valid = [](const std::string& value) { return ParseNumber<int>(value).has_value(); }}};
  semaphore.addressing.locate = [](const AdapterFields& adapter, int) {
    return "hill " + adapter.Get("hill");
  };
  semaphore.addressing.own_option = "own_hill";
  semaphore.options = {"own_hill", "peers", "max_frame_bytes", "colour"};
  semaphore.segment_options = {{"colour", "red"}};
  semaphore.frame_bytes = [](int64_t mtu, std::span<const AdapterFields* const> members) {
    return mtu - kFlagBytes * static_cast<int64_t>(members.size());
  };
  semaphore.multicasts = [](const TransportConfig&) { return true; };
  semaphore.stays_on_host = [](const AdapterFields& own) { return own.Get("hill") == "0"; };
  return semaphore;
}

// Endpoints on a hub of this process.
std::unique_ptr<Transport> MakeSemaphore(const TransportConfig& config) {
  static LoopbackHub hub(LoopbackOptions{.nodes = 3});
  return hub.Connect(config.node);
}

const RegisterTransport semaphore(SemaphoreDescriptor(), MakeSemaphore);

Topology ParseHills(const std::string& hills, const std::string& segment = "") {
  return ParseTopology(
      "name: 'n'\n" + hills + "segment { name: 's' transport: 'semaphore' " + segment + " }\n", "f",
      TransportsForTopologies());
}
std::string Hill(const std::string& name, const std::string& hill) {
  return StrCat("node { name: '", name, "' option { key: 'hill' value: '", hill, "' } }\n");
}
const std::string kHills = Hill("a", "4") + Hill("b", "0") + Hill("c", "7");

std::string HillError(const std::string& hills, const std::string& segment = "") {
  return ErrorOf([&] { ParseHills(hills, segment); });
}

TEST(FakeTransport, IsPlannedFromItsDescriptor) {
  const Topology topology = ParseHills(kHills, "mtu: 1300");
  EXPECT_EQ(topology.segments[0].max_frame_bytes, 1000);
  EXPECT_EQ(topology.segments[0].port, 0);
  const NodePlan plan = PlanFor(topology, 1);
  EXPECT_EQ(plan.segments[0].transport.options,
            (std::map<std::string, std::string>{{"own_hill", "hill 0"},
                                                {"peers", "0=hill 4,2=hill 7"},
                                                {"max_frame_bytes", "1000"},
                                                {"colour", "red"}}));
  EXPECT_TRUE(plan.warnings.empty());
  EXPECT_EQ(PlanFor(topology, 0).warnings.size(), 1u);  // others can send to this hill
  const Topology blue = ParseHills(kHills, "option { key: 'colour' value: 'blue' }");
  EXPECT_EQ(PlanFor(blue, 0).segments[0].transport.options.at("colour"), "blue");
  EXPECT_EQ(TransportRegistry::Get().Create(plan.segments[0].transport)->info().node, 1);
}

TEST(FakeTransport, MayBeOfAFurtherAdapter) {
  const auto node = [](const std::string& name, int hill) {
    return StrCat("node { name: '", name, "' adapter { name: 'x' option { key: 'hill' value: '",
                  hill, "' } } }\n");
  };
  const Topology topology = ParseHills(node("a", 1) + node("b", 2), "adapter: 'x'");
  EXPECT_EQ(PlanFor(topology, 0).segments[0].transport.options.at("peers"), "1=hill 2");
}

TEST(FakeTransport, IsEstimatedByItsMulticast) {
  SegmentPlan plan = PlanFor(ParseHills(kHills), 0).segments[0];
  const double once = EstimateSweep(plan, 100'000, 0).bytes_out;
  plan.transport.transport = "udp";
  EXPECT_GT(EstimateSweep(plan, 100'000, 0).bytes_out, 1.2 * once);
}

TEST(FakeTransport, HasItsKeysChecked) {
  EXPECT_EQ(HillError(Hill("a", "4") + "node { name: 'b' }\n"),
            "f:3: node[1].option: missing, expected the hill of \"b\" in the semaphore segment "
            "\"s\": option \"hill\"");
  EXPECT_EQ(HillError(Hill("a", "4") + Hill("b", "high")),
            "f:3: node[1].option[0].value: \"high\" given, expected the hill of an endpoint");
  EXPECT_EQ(HillError(Hill("a", "4") + Hill("b", "4")),
            "f:3: node[1].option: hill 4 is the hill of node \"a\" too, in segment \"s\"; expected "
            "another for \"b\"");
  EXPECT_EQ(HillError(kHills + "node { name: 'd' option { key: 'hil' value: '1' } }\n"),
            "f:5: node[3].option[0].key: \"hil\" given, which locates no transport's endpoints, "
            "expected one of hill, socket");
  EXPECT_EQ(HillError(kHills, "port: 7"),
            "f:5: segment[0].port: given, but transport \"semaphore\" has no ports; expected it "
            "with \"udp\" or \"verbs\" only");
  EXPECT_EQ(
      HillError(kHills, "option { key: 'own_hill' value: '1' }"),
      "f:5: segment[0].option[0].key: \"own_hill\" given, which follows from the file's other "
      "fields; expected another");
  EXPECT_EQ(
      HillError(kHills, "option { key: 'gso' value: '1' }"),
      "f:5: segment[0].option[0].key: \"gso\" given, expected an option of semaphore: colour");
}

}  // namespace
}  // namespace millrace::test
