// Every rule that a single field, node or segment can violate, with its error message.
#include <gtest/gtest.h>

#include <algorithm>

#include "test/topology/topology_support.h"
#include "topology/topology.h"

namespace millrace::test {
namespace {

constexpr const char* kNameRule =
    "expected 1 to 64 letters, digits, '-', '_' or '.', the first a letter or digit";

// Error message for a field of the segment in line 5, from the field's name on.
std::string SegmentError(const std::string& text) {
  const std::string place = "f:5: segment[0].", error = ParseError(text);
  EXPECT_TRUE(error.starts_with(place)) << error;
  return error.substr(std::min(place.size(), error.size()));
}
std::string UdpError(const std::string& fields) { return SegmentError(WithUdp(fields)); }
std::string PacketError(const std::string& fields) { return SegmentError(WithPacket(fields)); }

TEST(TopologyRefusal, NamesClustersNodesAndSegments) {
  const std::string rule = kNameRule;
  EXPECT_EQ(ParseError("node { name: 'a' }"), "f: name: missing, " + rule);
  EXPECT_EQ(ParseError("\nname: ''"), "f:2: name: \"\" given, " + rule);
  EXPECT_EQ(ParseError("name: ' '"), "f:1: name: \" \" given, " + rule);
  EXPECT_EQ(ParseError("name: 'n'\nnode { }"), "f:2: node[0].name: missing, " + rule);
  EXPECT_EQ(ParseError("name: 'n'\nnode {\n name: '-a' }"),
            "f:3: node[0].name: \"-a\" given, " + rule);
  EXPECT_EQ(ParseError(kThree + "segment { transport: 'udp' }"),
            "f:5: segment[0].name: missing, " + rule);
  EXPECT_EQ(ParseError(kThree + "segment { name: 'a b' transport: 'udp' }"),
            "f:5: segment[0].name: \"a b\" given, " + rule);
  const std::string longest(64, 'x');
  EXPECT_EQ(Parse("name: '" + longest + "' node { name: 'a' }").name, longest);
  EXPECT_EQ(ParseError("name: '" + longest + "x'"),
            "f:1: name: \"" + longest + "x\" given, " + rule);
}

TEST(TopologyRefusal, WantsEachNameOnce) {
  EXPECT_EQ(ParseError("name: 'n'\nnode { name: 'a' }\nnode { name: 'a' }"),
            "f:3: node[1].name: node[0] is named \"a\" already, expected another name");
  EXPECT_EQ(ParseError(WithUdp("") + "segment { name: 's' transport: 'packet' }"),
            "f:6: segment[1].name: segment[0] is named \"s\" already, expected another name");
  EXPECT_EQ(
      ParseError("name: 'n'\nnode { name: 'a' adapter { name: 'x' }\nadapter { name: 'x' } }"),
      "f:3: node[0].adapter[1].name: node \"a\" has an adapter \"x\" already, expected "
      "another name");
  EXPECT_EQ(ParseError("name: 'n'\nnode { name: 'a'\nadapter { } }"),
            std::string("f:3: node[0].adapter[0].name: missing, ") + kNameRule);
}

TEST(TopologyRefusal, KnowsNoFieldButItsOwn) {
  EXPECT_EQ(ParseError("name: 'n'\nnode { adress: '' }"),
            "f:2: Message type \"topology.Node\" has no field named \"adress\".");
  EXPECT_EQ(ParseError(""), "f: is empty, expected a Topology in text form");
}

TEST(TopologyRefusal, CountsNodes) {
  EXPECT_EQ(ParseError("name: 'n'"), "f: node: missing, expected at least one");
  std::string many = "name: 'n'\n";
  for (int i = 0; i < 4097; ++i) many += StrCat("node { name: 'n", i, "' }\n");
  EXPECT_EQ(ParseError(many), "f:4098: node[4096]: 4097 nodes given, expected at most 4096");
}

TEST(TopologyRefusal, WantsTheMemoryOfTheHostOrOfADevice) {
  const auto error = [](const std::string& memory) {
    return ParseError("name: 'n'\nnode { name: 'a'\n memory: '" + memory + "' }");
  };
  for (const std::string wrong : {"", "gpu", "cuda", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1",
                                  "cuda:99999999999", "Host", "cuda:0,1"}) {
    EXPECT_EQ(error(wrong), "f:3: node[0].memory: \"" + wrong +
                                "\" given, expected host, or a device such as cuda:0");
  }
  const Topology topology = Parse(
      "name: 'n' node { name: 'a' address: '10.0.0.1' memory: 'cuda:12' }\n"
      "node { name: 'b' address: '10.0.0.2' memory: 'host' }\n"
      "node { name: 'c' address: '10.0.0.3' }\nsegment { name: 's' transport: 'udp' }");
  EXPECT_EQ(topology.nodes[0].memory.type, DeviceType::kCuda);
  EXPECT_EQ(topology.nodes[0].memory.ordinal, 12);
  EXPECT_TRUE(topology.nodes[1].memory.on_host());
  EXPECT_TRUE(topology.nodes[2].memory.on_host());
}

TEST(TopologyRefusal, CutsChunksThatKernelsTakeWhereANodeHasItsMemoryOnADevice) {
  const auto text = [](const std::string& a, const std::string& segment) {
    return "name: 'n' node { name: 'a' address: '10.0.0.1' " + a +
           " } node { name: 'b' address: '10.0.0.2' }\nsegment { name: 's' transport: 'udp' "
           "mtu: 65535 " +
           segment + " }";
  };
  EXPECT_GT(Parse(text("", "")).segments[0].chunk_floats, 16000);
  EXPECT_EQ(Parse(text("memory: 'cuda:0'", "")).segments[0].chunk_floats, 8192);
  EXPECT_EQ(ParseError(text("memory: 'cuda:0'", "chunk_floats: 8193")),
            "f:2: segment[0].chunk_floats: 8193 given, expected 16 to 8192, what the kernels of a "
            "device take, where a node has its memory");
}

TEST(TopologyRefusal, WantsSolversAndShardsInTheirBounds) {
  const auto error = [](const std::string& b) {
    return ParseError("name: 'n'\nnode { name: 'a' }\nnode { name: 'b' " + b + " }\n");
  };
  EXPECT_EQ(error("solvers: 0"), "f:3: node[1].solvers: 0 given, expected 1 to 1024");
  EXPECT_EQ(error("solvers: 1025"), "f:3: node[1].solvers: 1025 given, expected 1 to 1024");
  EXPECT_EQ(error("shard: -1"), "f:3: node[1].shard: -1 given, expected 0 to 1");
  EXPECT_EQ(error("shard: 2"), "f:3: node[1].shard: 2 given, expected 0 to 1");
  EXPECT_EQ(error("shard: 0"),
            "f:3: node[1].shard: 0 is the shard of node \"a\" already, expected another for \"b\"");
  EXPECT_EQ(error("shard: 1 } shard_data: false node { name: 'c'"),
            "f:3: node[1].shard: given, but shard_data is false: every node reads all data");
}

TEST(TopologyRefusal, WantsAddressesThatCouldBe) {
  const auto error = [](const std::string& fields) {
    return ParseError("name: 'n'\nnode { name: 'a'\n" + fields + " }");
  };
  EXPECT_EQ(error("address: '10.0.0.1:80'"),
            "f:3: node[0].address: \"10.0.0.1:80\" given, expected a host name or an IP address, "
            "without a port");
  EXPECT_EQ(error("adapter { name: 'x' address: '10.0.0' }"),
            "f:3: node[0].adapter[0].address: \"10.0.0\" given, expected a host name or an IP "
            "address, without a port");
  EXPECT_EQ(error("interface: '02:00:00:00:00'"),
            "f:3: node[0].interface: \"02:00:00:00:00\" given, expected the name of a network "
            "interface or its MAC address, such as 52:54:00:12:34:56");
  EXPECT_EQ(error("mac: 'ff:ff:ff:ff:ff:ff'"),
            "f:3: node[0].mac: \"ff:ff:ff:ff:ff:ff\" given, expected the MAC address of one "
            "adapter, such as 52:54:00:12:34:56");
}

TEST(TopologyRefusal, KnowsItsTransports) {
  EXPECT_EQ(ParseError(kThree + "segment { name: 's' }"),
            "f:5: segment[0].transport: missing, expected one of packet, udp");
  EXPECT_EQ(ParseError(kThree + "segment { name: 's' transport: 'loopback' }"),
            "f:5: segment[0].transport: \"loopback\" given, expected one of packet, udp");
}

TEST(TopologyRefusal, WantsNodesThatExistAndTwoOfThem) {
  EXPECT_EQ(ParseError(WithUdp("node: 'a'\nnode: 'd'")),
            "f:6: segment[0].node[1]: there is no node \"d\", expected one of a, b, c");
  EXPECT_EQ(ParseError(WithUdp("node: 'a'\nnode: 'a'")),
            "f:6: segment[0].node[1]: \"a\" is there twice, a segment between a node and itself; "
            "expected each node once");
  EXPECT_EQ(UdpError("node: 'a'"), "node: segment \"s\" joins 1 node, expected at least 2");
  EXPECT_EQ(ParseError("name: 'n' node { name: 'a' }\nsegment { name: 's' transport: 'udp' }"),
            "f:2: segment[0].node: segment \"s\" joins 1 node, expected at least 2");
}

TEST(TopologyRefusal, ListsNoMoreThanSixteenNames) {
  std::string text = "name: 'n'\n";
  for (int i = 0; i < 20; ++i) text += StrCat("node { name: 'n", i, "' }\n");
  const std::string error = ParseError(text + "segment { name: 's' transport: 'udp' node: 'x' }");
  EXPECT_CONTAINS(error, "n14, n15 and 4 more");
}

TEST(TopologyRefusal, WantsAnAddressOfEachNodeForUdp) {
  EXPECT_EQ(ParseError("name: 'n'\nnode { name: 'a' address: 'x' }\nnode { name: 'b' }\n"
                       "segment { name: 's' transport: 'udp' }"),
            "f:3: node[1].address: missing, expected the host name or IP address of \"b\" for the "
            "udp segment \"s\"");
}

TEST(TopologyRefusal, WantsInterfaceAndMacOfEachNodeForPacket) {
  const auto error = [](const std::string& b) {
    return ParseError(
        "name: 'n'\nnode { name: 'a' mac: '02:00:00:00:00:01' }\n"
        "node { name: 'b' " +
        b + " }\nsegment { name: 's' transport: 'packet' }");
  };
  EXPECT_EQ(error(""),
            "f:3: node[1].interface: missing, expected the network interface of \"b\" for the "
            "packet segment \"s\"");
  EXPECT_EQ(error("interface: 'eth0'"),
            "f:3: node[1].mac: missing, expected the MAC address by which the peers of \"b\" reach "
            "it in the packet segment \"s\"");
  EXPECT_EQ(error("mac: '02:00:00:00:00:01'"),
            "f:3: node[1].mac: 02:00:00:00:00:01 is the MAC address of node \"a\" too, in segment "
            "\"s\"; expected another for \"b\"");
}

TEST(TopologyRefusal, WantsTheAdapterOfASegmentOnAllItsNodes) {
  const std::string nodes =
      "name: 'n'\nnode { name: 'a' adapter { name: 'x' address: '10.0.1.1' } }\n";
  EXPECT_EQ(ParseError(nodes + "node { name: 'b' address: '10.0.0.2' }\n"
                               "segment { name: 's' transport: 'udp' adapter: 'x' }"),
            "f:4: segment[0].adapter: node \"b\" has no adapter \"x\"");
  EXPECT_EQ(ParseError(nodes + "node { name: 'b'\nadapter { name: 'x' } }\n"
                               "segment { name: 's' transport: 'udp' adapter: 'x' }"),
            "f:4: node[1].adapter[0].address: missing, expected the host name or IP address of "
            "\"b\" for the udp segment \"s\"");
  EXPECT_EQ(UdpError("adapter: ''"), std::string("adapter: \"\" given, ") + kNameRule);
}

TEST(TopologyRefusal, WantsOneListenerInOnePlace) {
  const std::string same =
      "name: 'n'\nnode { name: 'a' address: 'FD00::0:1' }\n"
      "node { name: 'b' address: 'fd00::1' }\n";
  EXPECT_EQ(ParseError(same + "segment { name: 's' transport: 'udp' port: 9 }"),
            "f:3: node[1].address: [fd00::1]:9 of segment \"s\" is where node \"a\" listens, "
            "expected another address for \"b\"");
  EXPECT_EQ(ParseError(same + "node { name: 'c' address: '10.0.0.3' }\n"
                              "segment { name: 's' transport: 'udp' node: 'a' node: 'c' port: 9 }\n"
                              "segment { name: 't' transport: 'udp' node: 'b' node: 'c' port: 9 }"),
            "f:3: node[1].address: [fd00::1]:9 of segment \"t\" is where node \"a\" listens for "
            "segment \"s\", expected another address for \"b\"");
  EXPECT_EQ(ParseError(WithUdp("range_end: 0.5") +
                       "segment { name: 't' transport: 'udp' range_begin: 0.5 }"),
            "f:6: segment[1].port: node \"a\" listens on 10.0.0.1:29448 for segment \"s\" already, "
            "expected another port");
}

TEST(TopologyRefusal, KnowsCodecsAndTheirThreshold) {
  EXPECT_EQ(UdpError("codec: 'fp16'"),
            "codec: \"fp16\" given, expected one of float32, bfloat16, int8, int4, "
            "sparse, topk, random");
  for (const char* bad : {"fp16", "sparse", "random", ""}) {
    EXPECT_EQ(UdpError(StrCat("position_codec: '", bad, "'")),
              StrCat("position_codec: \"", bad,
                     "\" given, expected one of float32, bfloat16, int8, int4, topk"));
  }
  EXPECT_EQ(
      UdpError("position_codec: 'int8' position_share: 0.1"),
      "position_share: given, but position_codec is \"int8\"; expected it with \"topk\" only");
  for (const char* bad : {"0", "-1", "1.5", "nan"}) {
    EXPECT_EQ(UdpError(StrCat("position_codec: 'topk' position_share: ", bad)),
              StrCat("position_share: ", bad, " given, expected a share above 0 and at most 1"));
  }
  EXPECT_EQ(UdpError("codec: 'int8' threshold: 1"),
            "threshold: given, but codec is \"int8\"; expected it with \"sparse\" only");
  EXPECT_EQ(UdpError("codec: 'sparse'"),
            "threshold: missing, expected a number above 0 for codec \"sparse\"");
  for (const char* bad : {"0", "-1", "nan", "inf"}) {
    EXPECT_EQ(UdpError(StrCat("codec: 'sparse' threshold: ", bad)),
              StrCat("threshold: ", bad, " given, expected a number above 0"));
  }
  EXPECT_EQ(UdpError("merge_rule: 'elastic'"),
            "merge_rule: \"elastic\" given, expected one of additive, average, cgad, decayed, "
            "delay_compensated, easgd, gap_aware, heloco, mla, outer, staleness");
  EXPECT_EQ(
      UdpError("merge_rule: 'decayed' codec: 'int8'"),
      "merge_rule: \"decayed\" given, but codec \"int8\" leaves nothing unsent; expected codec "
      "sparse, topk or random");
  EXPECT_EQ(UdpError("codec: 'sparse' threshold: 1 share: 0.5"),
            "share: given, but codec is \"sparse\"; expected it with \"topk\" or \"random\" only");
  EXPECT_EQ(UdpError("codec: 'random'"),
            "share: missing, expected a share above 0 and at most 1 for codec \"random\"");
  EXPECT_EQ(UdpError("codec: 'topk' share: 0.5 threshold: 1"),
            "threshold: given, but codec is \"topk\"; expected it with \"sparse\" only");
  for (const char* bad : {"0", "-0.5", "1.5", "nan"}) {
    EXPECT_EQ(UdpError(StrCat("codec: 'topk' share: ", bad)),
              StrCat("share: ", bad, " given, expected a share above 0 and at most 1"));
  }
  EXPECT_EQ(UdpError("merge_rule_param { key: 'alpha' value: 0.5 }"),
            "merge_rule_param[0].key: \"alpha\" given, expected none with merge rule additive");
  EXPECT_EQ(UdpError("merge_rule_param { value: 0.5 }"),
            "merge_rule_param[0].key: missing, expected a name");
}

// Nodes a to d in a row of three segments, with these fields of each.
std::string RowText(const std::string& ab, const std::string& bc, const std::string& cd) {
  std::string text = "name: 'n'\n";
  for (int i = 0; i < 4; ++i) {
    text += StrCat("node { name: '", "abcd"[i], "' address: '10.0.0.", i + 1, "' }\n");
  }
  const auto segment = [&](const std::string& name, const std::string& fields) {
    text += StrCat("segment { name: '", name, "' transport: 'udp' node: '", name[0], "' node: '",
                   name[1], "' port: ", 9000 + name[0], " ", fields, " }\n");
  };
  segment("ab", ab);
  segment("bc", bc);
  segment("cd", cd);
  return text;
}

TEST(TopologyRefusal, WantsRoundedPositionsInOneSegmentOfTheSameWeights) {
  const std::string int8 = "position_codec: 'int8'", bfloat16 = "position_codec: 'bfloat16'";
  const auto expected = [](int segment) {
    return StrCat("f:", 6 + segment, ": segment[", segment,
                  "].position_codec: \"bfloat16\" given, ",
                  "but segment \"ab\" rounds the same weights, and each would take the other's ",
                  "rounding for progress; expected float32 in one of them");
  };
  EXPECT_EQ(ParseError(RowText(int8, bfloat16, "")), expected(1));
  EXPECT_EQ(ParseError(RowText(int8, "", bfloat16)), expected(2));
  for (const auto& [ab, bc] : {std::pair{int8, std::string()}, {std::string(), int8}}) {
    EXPECT_EQ(Parse(RowText(ab, bc, "")).segments.size(), 3u);
  }
  // Two ranges of the weights have nothing in common.
  const Topology halves =
      Parse(WithUdp("range_end: 0.5 " + int8) +
            "segment { name: 't' transport: 'udp' port: 9 range_begin: 0.5 " + bfloat16 + " }");
  EXPECT_EQ(halves.segments[1].position_codec, Codec::kBfloat16);
}

TEST(TopologyRefusal, WantsPortsForUdpOnly) {
  EXPECT_EQ(UdpError("port: 0"), "port: 0 given, expected 1 to 65535");
  EXPECT_EQ(UdpError("port: 65536"), "port: 65536 given, expected 1 to 65535");
  EXPECT_EQ(PacketError("port: 1"),
            "port: given, but transport \"packet\" has no ports; expected it with \"udp\" or "
            "\"verbs\" only");
}

TEST(TopologyRefusal, WantsRatesAndTimesInTheirBounds) {
  for (const char* bad : {"-1", "nan", "inf"}) {
    EXPECT_EQ(UdpError(StrCat("max_mbps: ", bad)),
              StrCat("max_mbps: ", bad, " given, expected Mbit/s, or 0 for no limit"));
  }
  EXPECT_EQ(UdpError("heartbeat_ms: 0"), "heartbeat_ms: 0 given, expected 1 to 60000");
  EXPECT_EQ(UdpError("pace: 'fast'"), "pace: \"fast\" given, expected auto or full");
  EXPECT_EQ(UdpError("pace: 'full' solver_share: 0.1"),
            "solver_share: given, but pace is \"full\"; expected it with \"auto\" only");
  for (const char* share : {"0", "1", "-1", "nan"}) {
    EXPECT_EQ(UdpError(StrCat("solver_share: ", share)),
              StrCat("solver_share: ", share, " given, expected from 0.001 to below 1"));
  }
  EXPECT_EQ(UdpError("heartbeat_ms: 10 peer_timeout_ms: 29"),
            "peer_timeout_ms: 29 given, expected 30 to 3600000");
  EXPECT_EQ(UdpError("key_file: ''"), "key_file: is empty, expected the path of a file");
}

TEST(TopologyRefusal, WantsRangesWithinTheArray) {
  for (const char* bad : {"-0.5", "1.5", "nan"}) {
    EXPECT_EQ(UdpError(StrCat("range_begin: ", bad)),
              StrCat("range_begin: ", bad, " given, expected a share from 0 to 1"));
    EXPECT_EQ(UdpError(StrCat("range_end: ", bad)),
              StrCat("range_end: ", bad, " given, expected a share from 0 to 1"));
  }
  EXPECT_EQ(
      UdpError("range_begin: 0.5 range_end: 0.5"),
      "range_begin: the range from 0.5 to 0.5 is empty, expected range_begin below range_end");
  EXPECT_EQ(UdpError("range_end: 0"),
            "range_end: the range from 0 to 0 is empty, expected range_begin below range_end");
}

TEST(TopologyRefusal, WantsOptionsOnceAndNoneThatFollowFromTheFile) {
  EXPECT_EQ(UdpError("option { value: '1' }"), "option[0].key: missing, expected a name");
  EXPECT_EQ(UdpError("option { key: 'gso' }"), "option[0].value: missing, expected a text");
  EXPECT_EQ(
      ParseError(WithUdp("option { key: 'gso' value: '1' }\noption { key: 'gso' value: '0' }")),
      "f:6: segment[0].option[1].key: \"gso\" is there twice, expected it once");
  const auto reserved = [](const std::string& key) {
    return "option[0].key: \"" + key +
           "\" given, which follows from the file's other fields; expected another";
  };
  const auto option = [](const std::string& key) {
    return "option { key: '" + key + "' value: '' }";
  };
  for (const char* key : {"address", "peers", "max_frame_bytes"}) {
    EXPECT_EQ(UdpError(option(key)), reserved(key));
  }
  for (const char* key : {"interface", "peers", "group", "max_frame_bytes"}) {
    EXPECT_EQ(PacketError(option(key)), reserved(key));
  }
  EXPECT_EQ(Parse(WithUdp(option("interface"))).segments[0].options.count("interface"), 1u);
}

TEST(TopologyRefusal, WantsOptionsThatTheTransportTakes) {
  EXPECT_EQ(PacketError("option { key: 'gso' value: '1' }"),
            "option[0].key: \"gso\" given, expected an option of packet: window_frames, "
            "block_bytes, ring_blocks, send_buffer_bytes, silence_ms");
}

TEST(TopologyRefusal, WantsNoNodeOptionThatLocatesNothing) {
  const auto error = [](const std::string& option) {
    return ParseError("name: 'n'\nnode { name: 'a'\noption { " + option + " } }");
  };
  EXPECT_CONTAINS(error("key: 'adress' value: 'x'"),
                  "f:3: node[0].option[0].key: \"adress\" given, which locates no transport's "
                  "endpoints, expected");
  EXPECT_EQ(error("value: 'x'"), "f:3: node[0].option[0].key: missing, expected a name");
}

TEST(TopologyRefusal, WantsFramesThatFitTheMtu) {
  EXPECT_EQ(UdpError("mtu: 63"), "mtu: 63 given, expected 64 to 65535");
  EXPECT_EQ(UdpError("mtu: 65536"), "mtu: 65536 given, expected 64 to 65535");
  EXPECT_EQ(UdpError("mtu: 300"),
            "mtu: 300 leaves 264 bytes for a frame, expected at least 333 for a "
            "heartbeat with 3 nodes");
  EXPECT_EQ(PacketError("mtu: 348"),
            "mtu: 348 leaves 332 bytes for a frame, expected at least 333 for a "
            "heartbeat with 3 nodes");
  EXPECT_EQ(Parse(WithPacket("mtu: 349")).segments[0].max_frame_bytes, 333);
  EXPECT_EQ(UdpError("chunk_floats: 349"),
            "chunk_floats: 349 given, expected 16 to 348, what an mtu of 1500 leaves room for");
  EXPECT_EQ(UdpError("chunk_floats: 15"),
            "chunk_floats: 15 given, expected 16 to 348, what an mtu of 1500 leaves room for");
}

TEST(TopologyRefusal, IsOneLineWhateverNamesHold) {
  EXPECT_EQ(ParseError("name: 'a\\nb'"), std::string("f:1: name: \"a?b\" given, ") + kNameRule);
}

}  // namespace
}  // namespace millrace::test
