#include "topology/topology.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text/names.h"
#include "exchange/protocol/exchange.h"
#include "test/topology/topology_support.h"
#include "topology/read_fields.h"

namespace millrace::test {
namespace {

TEST(Topology, FillsInDefaults) {
  const Topology topology = Parse(WithUdp(""));
  EXPECT_EQ(topology.name, "cluster");
  EXPECT_TRUE(topology.shard_data);
  EXPECT_TRUE(topology.distributed_evaluation);
  ASSERT_EQ(topology.nodes.size(), 3u);
  EXPECT_EQ(topology.nodes[2].name, "c");
  EXPECT_EQ(topology.nodes[2].solvers, 1);
  EXPECT_EQ(topology.nodes[2].shard, 2);
  ASSERT_EQ(topology.segments.size(), 1u);
  const TopologySegment& segment = topology.segments[0];
  EXPECT_EQ(segment.nodes, (std::vector<NodeId>{0, 1, 2}));
  EXPECT_EQ(segment.adapter, "");
  EXPECT_EQ(segment.codec.codec, Codec::kInt8);
  EXPECT_EQ(segment.position_codec, Codec::kInt8);
  EXPECT_EQ(segment.rule.name, "average");
  EXPECT_TRUE(segment.rule.parameters.empty());
  EXPECT_EQ(segment.mtu, 1500);
  EXPECT_EQ(segment.max_frame_bytes, 1464);
  EXPECT_EQ(segment.chunk_floats, 348);
  EXPECT_EQ(segment.max_megabits, 0);
  EXPECT_EQ(segment.key_file, "");
  EXPECT_EQ(segment.port, 29448);
  EXPECT_EQ(segment.begin, 0);
  EXPECT_EQ(segment.end, 1);
  EXPECT_EQ(segment.heartbeat_ns, ExchangeConfig().heartbeat_ns);
  EXPECT_EQ(segment.peer_timeout_ns, ExchangeConfig().peer_timeout_ns);
  EXPECT_TRUE(segment.options.empty());
  EXPECT_FALSE(segment.busy_poll);
  EXPECT_FALSE(segment.damping);
  EXPECT_EQ(segment.solver_share, 0.05);
}

TEST(Topology, TakesSharesOfSparseCodecsAndARuleForThem) {
  const Topology topology = Parse(
      kThree +
      "segment { name: 's' transport: 'udp' node: 'a' node: 'b' codec: 'topk' share: 0.02\n"
      "  merge_rule: 'decayed' merge_rule_param { key: 'decay' value: 0.5 } }\n"
      "segment { name: 't' transport: 'udp' node: 'b' node: 'c' port: 9 codec: 'random' share: 1 "
      "}\n");
  const TopologySegment &top = topology.segments[0], &random = topology.segments[1];
  EXPECT_EQ(top.codec.codec, Codec::kSparse);
  EXPECT_EQ(top.codec.choice, SparseChoice::kTop);
  EXPECT_EQ(top.codec.share, 0.02);
  EXPECT_EQ(top.rule.parameters, (RuleParameters{{"decay", 0.5}}));
  EXPECT_EQ(random.codec.choice, SparseChoice::kRandom);
  EXPECT_EQ(random.codec.share, 1);
}

TEST(Topology, TakesEveryFieldOfASegment) {
  const Topology topology = Parse(
      kThree +
      "shard_data: false distributed_evaluation: false\n"
      "segment { name: 's' transport: 'udp' node: 'c' node: 'a' codec: 'sparse'\n"
      "  threshold: 0.25 merge_rule: 'additive' chunk_floats: 100 max_mbps: 2.5 port: 7\n"
      "  key_file: 'k' mtu: 9000 heartbeat_ms: 10 peer_timeout_ms: 30 busy_poll: true damping: "
      "false\n"
      "  pace: 'auto' solver_share: 0.25\n"
      "  option { key: 'silence_ms' value: '9' } option { key: 'gso' value: '' } }\n"
      "segment { name: 't' transport: 'packet' node: 'b' node: 'c' codec: 'int8' pace: 'full' }\n");
  EXPECT_FALSE(topology.shard_data);
  EXPECT_FALSE(topology.distributed_evaluation);
  const TopologySegment& segment = topology.segments[0];
  EXPECT_EQ(segment.nodes, (std::vector<NodeId>{0, 2}));
  EXPECT_TRUE(segment.Joins(2));
  EXPECT_FALSE(segment.Joins(1));
  EXPECT_EQ(segment.max_nodes(), 3);
  EXPECT_EQ(segment.codec.codec, Codec::kSparse);
  EXPECT_EQ(segment.codec.threshold, 0.25f);
  EXPECT_EQ(segment.chunk_floats, 100);
  EXPECT_EQ(segment.max_megabits, 2.5);
  EXPECT_EQ(segment.port, 7);
  EXPECT_EQ(segment.key_file, "k");
  EXPECT_EQ(segment.mtu, 9000);
  EXPECT_EQ(segment.heartbeat_ns, 10'000'000);
  EXPECT_EQ(segment.peer_timeout_ns, 30'000'000);
  EXPECT_TRUE(segment.busy_poll);
  EXPECT_FALSE(segment.damping);
  EXPECT_EQ(segment.solver_share, 0.25);
  EXPECT_EQ(topology.segments[1].solver_share, 1);
  EXPECT_EQ(segment.options,
            (std::map<std::string, std::string>{{"silence_ms", "9"}, {"gso", ""}}));
  EXPECT_EQ(topology.segments[1].codec.codec, Codec::kInt8);
  EXPECT_EQ(topology.segments[1].port, 0);
}

TEST(Topology, TakesEveryFieldOfANode) {
  const Topology topology = Parse(
      "name: 'n'\n"
      "node { name: 'a' address: 'Host-A.Example' interface: '02:00:00:00:00:AA' solvers: 8\n"
      "  shard: 1 adapter { name: 'x' address: 'fe80:0::1%eth0' mac: '02:00:00:00:00:01' } }\n"
      "node { name: 'b' address: '10.0.0.2' shard: 0 }\n"
      "segment { name: 's' transport: 'udp' }\n");
  const TopologyNode& a = topology.nodes[0];
  EXPECT_EQ(a.solvers, 8);
  EXPECT_EQ(a.shard, 1);
  EXPECT_EQ(topology.nodes[1].shard, 0);
  ASSERT_EQ(a.adapters.size(), 2u);
  EXPECT_EQ(a.FindAdapter("")->address, "host-a.example");
  EXPECT_EQ(a.FindAdapter("")->interface, "02:00:00:00:00:aa");
  EXPECT_EQ(a.FindAdapter("")->mac, "02:00:00:00:00:aa");
  EXPECT_EQ(a.FindAdapter("x")->address, "fe80::1%eth0");
  EXPECT_EQ(a.FindAdapter("x")->interface, "02:00:00:00:00:01");
  EXPECT_EQ(a.FindAdapter("y"), nullptr);
}

TEST(Topology, MayBeOfOneNodeWithoutSegments) {
  EXPECT_EQ(Parse("name: 'n' node { name: 'a' }").nodes.size(), 1u);
}

// docs/wire.md has the table of sizes.
TEST(Chunks, AreWhatTheMtuHoldsBesideTheHeaders) {
  const auto floats = [](const std::string& text) { return Parse(text).segments[0].chunk_floats; };
  EXPECT_EQ(floats(WithUdp("mtu: 1500")), 348);
  EXPECT_EQ(floats(WithUdp("mtu: 9000")), 2222);
  EXPECT_EQ(floats(WithUdp("mtu: 1500 key_file: 'k'")), 342);
  EXPECT_EQ(floats(WithPacket("mtu: 1500")), 353);
  EXPECT_EQ(floats(WithPacket("mtu: 9000")), 2228);
  // IPv6, and a name, which may resolve to an IPv6 address.
  for (const char* address : {"fd00::1", "node-a"}) {
    std::string text = WithUdp("");
    text.replace(text.find("10.0.0.1"), 8, address);
    EXPECT_EQ(Parse(text).segments[0].max_frame_bytes, 1440) << address;
    EXPECT_EQ(floats(text), 342) << address;
  }
}

// An exchange has to fit into the frames provided to its segment.
TEST(Chunks, LeaveRoomForAllFramesOfAnExchange) {
  for (const int nodes : {2, 40, 64, 65, 77}) {
    std::string text = "name: 'n'\n";
    for (int i = 0; i < nodes; ++i) {
      text += StrCat("node { name: 'n", i, "' address: '10.0.0.", i, "' }\n");
    }
    const Topology topology = Parse(text + "segment { name: 's' transport: 'udp' }");
    const TopologySegment& segment = topology.segments[0];
    ExchangeConfig config;
    config.max_nodes = segment.max_nodes();
    ReplicaArrays arrays;
    arrays.size = 1 << 20;
    arrays.chunk_floats = segment.chunk_floats;
    EXPECT_LE(MaxFrameBytes(config, arrays), 1464u) << nodes;
    arrays.chunk_floats = segment.chunk_floats + 1;
    EXPECT_GT(MaxFrameBytes(config, arrays), 1464u) << nodes;
  }
}

// A heartbeat lists the members of its own segment only, wherever they are in the file.
TEST(Chunks, FitSegmentsOfAClusterThatOneHeartbeatCouldNotName) {
  constexpr int kNodes = 1024, kRack = 32;
  std::string nodes = "name: 'n'\n", racks, heads;
  for (int i = 0; i < kNodes; ++i) {
    nodes += StrCat("node { name: 'n", i, "' address: '10.0.", i / 256, ".", i % 256, "' }\n");
    if (i % kRack == 0) {
      heads += StrCat(" node: 'n", i, "'");
      racks += StrCat(i > 0 ? " }\n" : "", "segment { name: 'r", i / kRack, "' transport: 'udp'");
    }
    racks += StrCat(" node: 'n", i, "'");
  }
  const std::string top = "segment { name: 'top' transport: 'udp' port: 30000" + heads + " }\n";
  const Topology topology = Parse(nodes + top + racks + " }\n");
  ASSERT_EQ(topology.segments.size(), 33u);
  for (const TopologySegment& segment : topology.segments) {
    ExchangeConfig config;
    config.max_nodes = segment.max_nodes();
    config.max_members = static_cast<uint16_t>(segment.nodes.size());
    const ReplicaArrays arrays{.size = 1 << 20, .chunk_floats = segment.chunk_floats};
    EXPECT_LE(MaxFrameBytes(config, arrays), 1464u) << segment.name;
  }
  EXPECT_CONTAINS(ParseError(nodes + "segment { name: 'all' transport: 'udp' }"),
                  "expected at least 15768 for a heartbeat with 1024 nodes");
}

TEST(RunId, IsFnv1aOfBothNames) {
  // FNV hash of "cluster\0s", computed independently of the program.
  EXPECT_EQ(RunId(Parse(WithUdp("")), 0), 0x196e7908e92acacu);
}

TEST(RunId, TellsClustersAndSegmentsApart) {
  const auto id = [](const std::string& cluster, const std::string& segment) {
    std::string text = WithUdp("");
    text.replace(text.find("cluster"), 7, cluster);
    text.replace(text.find("'s'"), 3, "'" + segment + "'");
    return RunId(Parse(text), 0);
  };
  std::vector<uint64_t> ids = {id("a", "bc"), id("ab", "c"), id("a", "b"), id("b", "a")};
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
}

TEST(RangeOf, MeetsTheNextRangeInTheArray) {
  const Topology topology =
      Parse(kThree +
            "segment { name: 'x' transport: 'udp' range_end: 0.3333 }\n"
            "segment { name: 'y' transport: 'packet' range_begin: 0.3333 }\n");
  EXPECT_EQ(RangeOf(topology.segments[0], 0), (WeightRange{0, 0}));
  EXPECT_EQ(RangeOf(topology.segments[0], 1000), (WeightRange{0, 333}));
  for (const int64_t size : {1, 2, 7, 431080, 60965224}) {
    const WeightRange lower = RangeOf(topology.segments[0], size);
    const WeightRange upper = RangeOf(topology.segments[1], size);
    EXPECT_EQ(lower.begin, 0);
    EXPECT_EQ(lower.end, upper.begin) << size;
    EXPECT_EQ(upper.end, size);
  }
}

TEST(Digest, IsOfWhatTheFileSays) {
  const uint64_t digest = Parse(WithUdp("")).digest;
  EXPECT_EQ(Parse("# A comment\n\n" + WithUdp("")).digest, digest);
  EXPECT_NE(Parse(WithUdp("chunk_floats: 64")).digest, digest);
  EXPECT_NE(Parse(WithUdp("busy_poll: true")).digest, Parse(WithUdp("busy_poll: false")).digest);
}

TEST(TransportsForTopologies, AreThoseBetweenMachines) {
  const std::vector<std::string> names = TransportsForTopologies();
  EXPECT_EQ(std::count(names.begin(), names.end(), "udp"), 1);
  // Files that name it are valid in builds without it.
  EXPECT_EQ(std::count(names.begin(), names.end(), "verbs"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "loopback"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "faulty"), 0);
}

TEST(IsIdentifier, IsShortAndSane) {
  EXPECT_TRUE(IsIdentifier("a"));
  EXPECT_TRUE(IsIdentifier("7_a-b.C"));
  for (const char* bad : {"", " ", "-a", ".a", "_a", "a b", "a/b", "a\n", "\xc3\xa4"}) {
    EXPECT_FALSE(IsIdentifier(bad)) << bad;
  }
}

TEST(LoadTopology, NamesTheFile) {
  TempDir folder;
  const std::string path = folder / "c.prototxt";
  EXPECT_EQ(ErrorOf([&] { LoadTopology(path, kTransports); }),
            path + ": No such file or directory");
  WriteFile(path, WithUdp(""));
  EXPECT_EQ(LoadTopology(path, kTransports).source.file(), path);
}

}  // namespace
}  // namespace millrace::test
