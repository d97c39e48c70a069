#include "topology/plan.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "test/support/free_port.h"
#include "test/topology/topology_support.h"

namespace millrace::test {
namespace {

constexpr char kRuleNotice[] =
    "segment \"s\" merges by the rule average, at a learning rate times the number of members: the "
    "default for 3 to 16, of which there are 3";

using Options = std::map<std::string, std::string>;

// A machine with these interfaces and no key file.
Machine With(std::vector<NetworkInterface> interfaces) {
  return {[interfaces] { return interfaces; },
          [](const std::string& path, const std::string&) -> std::string {
            throw Error(path, ": No such file or directory");
          },
          [](DeviceType type, int ordinal) {
            if (ordinal > 0) throw Error(DeviceTypeName(type), " device ", ordinal, " is not here");
          }};
}

const NetworkInterface kEth0{"eth0", "02:00:00:00:00:01", 1500};

NodePlan Plan(const std::string& text, NodeId node, const Machine& machine = With({kEth0})) {
  return PlanFor(Parse(text), node, machine);
}
std::string PlanError(const std::string& text, NodeId node, const Machine& machine) {
  const Topology topology = Parse(text);
  return ErrorOf([&] { PlanFor(topology, node, machine); });
}

TEST(Plan, OfUdpListensOnTheNodesOwnAddressAndKnowsTheOthers) {
  const NodePlan plan = Plan(WithUdp("option { key: 'gro' value: '0' }"), 1);
  EXPECT_EQ(plan.node, 1);
  EXPECT_EQ(plan.name, "b");
  ASSERT_EQ(plan.segments.size(), 1u);
  const SegmentPlan& segment = plan.segments[0];
  EXPECT_EQ(segment.name, "s");
  EXPECT_EQ(segment.peers, (std::vector<NodeId>{0, 2}));
  EXPECT_EQ(segment.transport.transport, "udp");
  EXPECT_EQ(segment.transport.node, 1);
  EXPECT_EQ(segment.transport.options, (Options{{"address", "10.0.0.2:29448"},
                                                {"peers", "0=10.0.0.1:29448,2=10.0.0.3:29448"},
                                                {"max_frame_bytes", "1464"},
                                                {"gro", "0"},
                                                {"silence_ms", "100"}}));
  EXPECT_EQ(plan.notices, std::vector<std::string>{kRuleNotice});
}

TEST(Plan, LooksForTheDeviceThatTheNodesMemoryIsOn) {
  const std::string text =
      "name: 'n'\nnode { name: 'a' address: '10.0.0.1' memory: 'cuda:0' }\n"
      "node { name: 'b' address: '10.0.0.2'\n memory: 'cuda:1' }\n"
      "node { name: 'c' address: '10.0.0.3' }\nsegment { name: 's' transport: 'udp' }";
  EXPECT_EQ(Plan(text, 0).memory.type, DeviceType::kCuda);
  EXPECT_EQ(PlanError(text, 1, With({})), "f:4: node[1].memory: cuda device 1 is not here");
  // The settings of other nodes do not matter here.
  EXPECT_TRUE(Plan(text, 2).memory.on_host());
}

TEST(Plan, PutsIpv6AddressesIntoBrackets) {
  const NodePlan plan = Plan(
      "name: 'n' node { name: 'a' address: 'fd00::1' } node { name: 'b' address: 'Host' }\n"
      "segment { name: 's' transport: 'udp' port: 7 }",
      0);
  EXPECT_EQ(plan.segments[0].transport.options, (Options{{"address", "[fd00::1]:7"},
                                                         {"peers", "1=host:7"},
                                                         {"max_frame_bytes", "1440"},
                                                         {"silence_ms", "100"}}));
}

TEST(Plan, OfUdpIsWhatTheTransportTakes) {
  const Topology topology =
      Parse(StrCat("name: 'n' node { name: 'a' address: '127.0.0.1' } node { name: 'b' address: "
                   "'127.0.0.2' }\nsegment { name: 's' transport: 'udp' port: ",
                   FreePort(), " option { key: 'silence_ms' value: '500' } }"));
  for (const NodeId node : {0, 1}) {
    const SegmentPlan segment = PlanFor(topology, node, With({})).segments[0];
    const auto endpoint = TransportRegistry::Get().Create(segment.transport);
    EXPECT_EQ(endpoint->info().node, node);
    EXPECT_EQ(endpoint->info().peers, segment.peers);
    EXPECT_EQ(endpoint->max_frame_bytes(), 1464u);
  }
}

TEST(Plan, OfPacketNamesThisMachinesInterfaceAndThePeersMacs) {
  const std::string text = WithPacket("");
  const Options expected = {{"interface", "eth0"},
                            {"peers", "1=02:00:00:00:00:02,2=02:00:00:00:00:03"},
                            {"group", "50232"},
                            {"max_frame_bytes", "1484"},
                            {"silence_ms", "100"}};
  EXPECT_EQ(Plan(text, 0).segments[0].transport.options, expected);
  // The result is the same if the file gives only the MAC address.
  std::string by_mac = text;
  by_mac.replace(by_mac.find("interface: 'eth0'"), 17, "");
  EXPECT_EQ(Plan(by_mac, 0).segments[0].transport.options, expected);
}

const RegisterTransport other([] {
  TransportDescriptor descriptor;
  descriptor.name = "other";
  descriptor.reach = TransportReach::kNetwork;
  descriptor.options = {"max_frame_bytes", "x"};
  descriptor.frame_bytes = [](int64_t mtu, auto) { return mtu; };
  return descriptor;
}());

TEST(Plan, OfAnotherTransportHasTheFilesOptions) {
  const Topology topology = ParseTopology(
      kThree +
          "segment { name: 's' transport: 'other' mtu: 2000 option { key: 'x' value: 'y' } }\n",
      "f", {"other"});
  EXPECT_EQ(PlanFor(topology, 0, With({})).segments[0].transport.options,
            (Options{{"max_frame_bytes", "2000"}, {"x", "y"}}));
}

TEST(Plan, TellsTheExchangeItsNumbers) {
  const std::string text = WithUdp(
      "codec: 'sparse' threshold: 0.5 position_codec: 'int8' heartbeat_ms: 20 peer_timeout_ms: 90 "
      "max_mbps: 80 "
      "range_begin: 0 range_end: 1 "
      "chunk_floats: 64 busy_poll: true");
  const SegmentPlan segment = Plan(text, 2).segments[0];
  EXPECT_EQ(segment.exchange.run, RunId(Parse(text), 0));
  EXPECT_EQ(segment.exchange.node, 2);
  EXPECT_EQ(segment.exchange.max_nodes, 3);
  EXPECT_EQ(segment.exchange.max_members, 3);
  EXPECT_EQ(segment.exchange.codec.codec, Codec::kSparse);
  EXPECT_EQ(segment.exchange.codec.threshold, 0.5f);
  EXPECT_EQ(segment.exchange.position_codec, Codec::kInt8);
  const SegmentPlan changes =
      Plan(WithUdp("position_codec: 'topk' position_share: 0.25"), 2).segments[0];
  EXPECT_EQ(changes.exchange.position_codec, Codec::kSparse);
  EXPECT_EQ(changes.exchange.position_share, 0.25);
  EXPECT_EQ(segment.exchange.heartbeat_ns, 20'000'000);
  EXPECT_EQ(segment.exchange.peer_timeout_ns, 90'000'000);
  EXPECT_EQ(segment.rule.name, "average");
  EXPECT_EQ(segment.chunk_floats, 64);
  EXPECT_EQ(segment.max_bytes_per_second, 1e7);
  EXPECT_EQ(segment.begin, 0);
  EXPECT_EQ(segment.end, 1);
  EXPECT_EQ(segment.key_file, "");
  EXPECT_TRUE(segment.busy_poll);
}

TEST(Plan, HasTheSegmentsOfItsNodeOnly) {
  const std::string text = kThree +
                           "segment { name: 's' transport: 'udp' node: 'a' node: 'b' }\n"
                           "segment { name: 't' transport: 'packet' node: 'b' node: 'c' }\n";
  // Node a needs no interface, because it has no part in the packet segment.
  const Machine none = With({});
  ASSERT_EQ(Plan(text, 0, none).segments.size(), 1u);
  EXPECT_EQ(Plan(text, 0, none).segments[0].exchange.max_nodes, 2);
  const NodePlan c = Plan(text, 2, With({{"eth0", "02:00:00:00:00:03", 1500}}));
  ASSERT_EQ(c.segments.size(), 1u);
  EXPECT_EQ(c.segments[0].name, "t");
  EXPECT_EQ(c.segments[0].segment, 1u);
  EXPECT_EQ(c.segments[0].peers, std::vector<NodeId>{1});
  EXPECT_EQ(c.segments[0].names, (std::vector<std::string>{"", "b", "c"}));
}

TEST(Plan, UsesTheAdapterThatASegmentChooses) {
  const std::string text =
      "name: 'n'\n"
      "node { name: 'a' adapter { name: 'x' address: '10.0.1.1' } }\n"
      "node { name: 'b' adapter { name: 'x' address: '10.0.1.2' } }\n"
      "segment { name: 's' transport: 'udp' adapter: 'x' port: 7 }\n";
  EXPECT_EQ(Plan(text, 1).segments[0].transport.options.at("address"), "10.0.1.2:7");
  EXPECT_EQ(Plan(text, 1).segments[0].transport.options.at("peers"), "0=10.0.1.1:7");
}

TEST(Plan, ReadsAShardOfTheDataUnlessTheFileSaysNo) {
  const NodePlan sharded = Plan(WithUdp(""), 2);
  EXPECT_EQ(sharded.shard, 2);
  EXPECT_EQ(sharded.shards, 3);
  EXPECT_TRUE(sharded.distributed_evaluation);
  const NodePlan whole = Plan(WithUdp("} shard_data: false distributed_evaluation: false #"), 2);
  EXPECT_EQ(whole.shard, 0);
  EXPECT_EQ(whole.shards, 1);
  EXPECT_FALSE(whole.distributed_evaluation);
}

TEST(Plan, RefusesInterfacesThatThisMachineDoesNotHave) {
  EXPECT_EQ(PlanError(WithPacket(""), 0, With({{"lo", "", 65536}, {"eth1", "", 1500}})),
            "f:2: node[0].interface: this machine has no network interface eth0, expected one of "
            "lo, eth1");
  EXPECT_EQ(PlanError(WithPacket(""), 0, With({})),
            "f:2: node[0].interface: this machine has no network interface eth0, expected one");
  const std::string adapters =
      "name: 'n'\n"
      "node { name: 'a'\nadapter { name: 'x' interface: '02:00:00:00:00:01' } }\n"
      "node { name: 'b'\nadapter { name: 'x' interface: '02:00:00:00:00:02' } }\n"
      "segment { name: 's' transport: 'packet' adapter: 'x' }\n";
  EXPECT_EQ(PlanError(adapters, 1, With({kEth0})),
            "f:5: node[1].adapter[0].interface: this machine has no network interface "
            "02:00:00:00:00:02, expected one of eth0 02:00:00:00:00:01");
  EXPECT_EQ(PlanError(adapters, 0, With({kEth0, {"br0", "02:00:00:00:00:01", 1500}})),
            "f:3: node[0].adapter[0].interface: 02:00:00:00:00:01 is the MAC address of eth0 and "
            "of br0, expected the name of one of them");
}

TEST(Plan, RefusesAnInterfaceWithAnotherMacOrTooSmallAnMtu) {
  EXPECT_EQ(PlanError(WithPacket(""), 1, With({kEth0})),
            "f:3: node[1].mac: 02:00:00:00:00:02 given, but interface eth0 of this machine has "
            "02:00:00:00:00:01; expected that");
  EXPECT_EQ(PlanError(WithPacket(""), 1, With({{"eth0", "", 1500}})),
            "f:3: node[1].mac: 02:00:00:00:00:02 given, but interface eth0 of this machine has "
            "none; expected that");
  EXPECT_EQ(PlanError(WithPacket("\nmtu: 9000"), 0, With({kEth0})),
            "f:6: segment[0].mtu: 9000, but interface eth0 of this machine allows 1500, expected "
            "at most that");
}

TEST(Plan, SaysThatAnInterfaceAllowsMore) {
  NetworkInterface jumbo = kEth0;
  jumbo.mtu = 9000;
  EXPECT_EQ(Plan(WithPacket(""), 0, With({jumbo})).notices,
            (std::vector<std::string>{
                kRuleNotice,
                "segment \"s\" sends packets of 1500 bytes; interface eth0 allows 9000, which the "
                "segment's mtu may say if all its nodes do"}));
  EXPECT_EQ(Plan(WithPacket("mtu: 9000"), 0, With({jumbo})).notices,
            std::vector<std::string>{kRuleNotice});
}

// Number of warnings in the plan of node a with `address`; `segment` holds further segment fields.
size_t Warnings(const std::string& address, const std::string& segment) {
  Machine machine = With({{"eth0", "02:00:00:00:00:01", 1500}, {"lo", "02:00:00:00:00:01", 65536}});
  machine.find_key = [](const std::string& path, const std::string&) { return path; };
  const std::string text =
      StrCat("name: 'n'\nnode { name: 'a' ", address, " mac: '02:00:00:00:00:01' }\n",
             "node { name: 'b' address: '10.0.0.2' interface: 'eth0' mac: '02:00:00:00:00:02' }\n",
             "segment { name: 's' ", segment, " }\n");
  return PlanFor(ParseTopology(text, "f", {"packet", "udp", "verbs"}), 0, machine).warnings.size();
}

TEST(Plan, WarnsOfASegmentWithoutAKeyThatOtherMachinesCanSendTo) {
  for (const char* reached : {"10.0.0.1", "192.168.127.1", "128.0.0.1", "0.0.0.0", "fd00::1",
                              "fe80::1%eth0", "::", "::2", "node1", "127.example.org"}) {
    const std::string address = StrCat("address: '", reached, "'");
    EXPECT_EQ(Warnings(address, "transport: 'udp'"), 1u) << reached;
    EXPECT_EQ(Warnings(address, "transport: 'udp' key_file: 'k'"), 0u) << reached;
  }
  for (const char* confined : {"127.0.0.1", "127.255.255.254", "::1", "::1%lo", "localhost"}) {
    EXPECT_EQ(Warnings(StrCat("address: '", confined, "'"), "transport: 'udp'"), 0u) << confined;
    EXPECT_EQ(Warnings(StrCat("address: '", confined, "'"), "transport: 'verbs'"), 1u) << confined;
  }
  EXPECT_EQ(Warnings("address: '10.0.0.1'", "transport: 'verbs' key_file: 'k'"), 0u);
  EXPECT_EQ(Warnings("interface: 'eth0'", "transport: 'packet'"), 1u);
  EXPECT_EQ(Warnings("interface: 'eth0'", "transport: 'packet' key_file: 'k'"), 0u);
  EXPECT_EQ(Warnings("interface: 'lo'", "transport: 'packet'"), 0u);
}

TEST(Plan, WarnsOnceForEachOfItsOwnSegments) {
  const std::string text = kThree +
                           "segment { name: 's' transport: 'udp' node: 'a' node: 'b' }\n"
                           "segment { name: 't' transport: 'udp' port: 7 node: 'b' node: 'c' }\n";
  const std::vector<std::string> warnings = Plan(text, 1).warnings;
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0],
            "segment \"s\" has no key_file: whoever can send on its network can change the weights "
            "and end the run; give it one, the same on all nodes, made with (umask 077; openssl "
            "rand -hex 32 > cluster.key)");
  EXPECT_CONTAINS(warnings[1], "segment \"t\" has no key_file: ");
  EXPECT_EQ(Plan(text, 0).warnings, std::vector<std::string>{warnings[0]});
}

TEST(Plan, FindsTheKeysOfItsOwnSegments) {
  const std::string text = kThree +
                           "segment { name: 's' transport: 'udp' node: 'a' node: 'b'\n"
                           "  key_file: 's.key' }\n"
                           "segment { name: 't' transport: 'packet' node: 'b' node: 'c' }\n";
  EXPECT_EQ(PlanError(text, 0, With({})),
            "f:6: segment[0].key_file: s.key: No such file or directory");
  EXPECT_EQ(Plan(text, 2, With({{"eth0", "02:00:00:00:00:03", 1500}})).segments.size(), 1u);
  Machine machine = With({});
  machine.find_key = [](const std::string& path, const std::string& named_in) {
    return path + " of " + named_in;
  };
  EXPECT_EQ(Plan(text, 0, machine).segments[0].key_file, "s.key of f");
}

TEST(Plan, OnThisMachineFindsKeysBesideTheFile) {
  TempDir folder;
  const std::string path = folder / "c.prototxt";
  WriteFile(path, WithUdp("key_file: 's.key'"));
  const Topology topology = LoadTopology(path, kTransports);
  EXPECT_EQ(ErrorOf([&] { PlanFor(topology, 0); }),
            path + ":5: segment[0].key_file: s.key: No such file or directory");
  const std::string key = folder / "s.key";
  WriteFile(key, std::string(64, 'a'));
  ASSERT_EQ(chmod(key.c_str(), 0600), 0);
  EXPECT_EQ(PlanFor(topology, 0).segments[0].key_file, key);
  ASSERT_EQ(chmod(key.c_str(), 0644), 0);
  EXPECT_EQ(ErrorOf([&] { PlanFor(topology, 0); }),
            path + ":5: segment[0].key_file: " + key +
                ": others than its owner have permissions for it, expected none (chmod 600)");
}

TEST(Machine, HasALoopbackInterface) {
  bool found = false;
  for (const NetworkInterface& one : ListInterfaces()) {
    EXPECT_GT(one.mtu, 0) << one.name;
    found = found || one.name == "lo";
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace millrace::test
