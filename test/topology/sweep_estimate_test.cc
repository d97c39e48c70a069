#include "cluster/sweep_estimate.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "millrace/transport_registry.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

SegmentPlan PlanOf(size_t peers, const std::string& transport, Codec codec) {
  SegmentPlan plan;
  plan.name = "lan";
  for (size_t i = 0; i < peers; ++i) plan.peers.push_back(static_cast<NodeId>(i + 1));
  plan.transport.transport = transport;
  plan.exchange.max_nodes = static_cast<uint16_t>(peers + 1);
  plan.exchange.codec.codec = codec;
  plan.chunk_floats = 350;
  return plan;
}

const RegisterTransport multicasting([] {
  TransportDescriptor descriptor;
  descriptor.name = "multicasting";
  descriptor.options = {"max_frame_bytes", "multicast"};
  descriptor.frame_bytes = [](int64_t mtu, auto) { return mtu; };
  descriptor.multicasts = [](const TransportConfig& config) { return !config.Has("multicast"); };
  return descriptor;
}());

TEST(SweepEstimate, IsWhatTheWeightsTakeOnTheWire) {
  // Half of the weights are sent as positions and half as diffs; headers add a tenth.
  const SweepEstimate two = EstimateSweep(PlanOf(1, "udp", Codec::kFloat32), 350'000, 1000);
  EXPECT_NEAR(two.bytes_out, 1.4e6, 0.15e6);
  EXPECT_NEAR(two.bytes_in, two.bytes_out, 1);
  EXPECT_NEAR(two.seconds, two.bytes_out / 125e6, 1e-9);
  // Positions go to four peers, by unicast or by multicast.
  const SweepEstimate five = EstimateSweep(PlanOf(4, "udp", Codec::kFloat32), 350'000, 1000);
  EXPECT_NEAR(five.bytes_out, 1.4e6 * (0.8 + 0.8), 0.3e6);
  SegmentPlan plan = PlanOf(4, "multicasting", Codec::kFloat32);
  const SweepEstimate multicast = EstimateSweep(plan, 350'000, 1000);
  EXPECT_NEAR(multicast.bytes_out, 1.4e6 * (0.2 + 0.8), 0.2e6);
  EXPECT_NEAR(multicast.bytes_in, five.bytes_in, 1);
  plan.transport.options["multicast"] = "off";
  EXPECT_EQ(EstimateSweep(plan, 350'000, 1000).bytes_out, five.bytes_out);
}

TEST(SweepEstimate, CountsAFrameToAllNodesAsTheTransportSendsIt) {
  const auto out = [](const std::string& transport) {
    return EstimateSweep(PlanOf(4, transport, Codec::kFloat32), 350'000, 0).bytes_out;
  };
  EXPECT_EQ(out("packet"), out("udp"));
  EXPECT_LT(out("verbs"), out("udp"));
}

TEST(SweepEstimate, KnowsWhatCodecsSave) {
  const auto out = [](Codec codec) {
    return EstimateSweep(PlanOf(1, "udp", codec), 350'000, 0).bytes_out;
  };
  EXPECT_LT(out(Codec::kBfloat16), 0.8 * out(Codec::kFloat32));
  EXPECT_LT(out(Codec::kInt8), 0.9 * out(Codec::kBfloat16));
  EXPECT_LT(out(Codec::kSparse), out(Codec::kInt8));
  EXPECT_EQ(EstimateSweep(PlanOf(1, "udp", Codec::kInt8), 350'000, 0).seconds, 0);
  SegmentPlan both = PlanOf(1, "udp", Codec::kInt8);
  both.exchange.position_codec = Codec::kInt8;
  EXPECT_LT(EstimateSweep(both, 350'000, 0).bytes_out, 0.6 * out(Codec::kInt8));
  SegmentPlan few = PlanOf(1, "udp", Codec::kSparse);
  few.exchange.codec = {.codec = Codec::kSparse, .choice = SparseChoice::kTop, .share = 0.02};
  few.exchange.position_codec = Codec::kSparse;
  EXPECT_LT(EstimateSweep(few, 350'000, 0).bytes_out,
            0.4 * EstimateSweep(both, 350'000, 0).bytes_out);
}

class LinkRateTest : public testing::Test {
 protected:
  LinkRateTest() {
    WriteFile(folder_ / "t.prototxt",
              "name: 'c' node { name: 'a' address: '127.0.0.1' }\n"
              "node { name: 'b' address: '127.0.0.2' } segment { name: 'lan' transport: 'udp' }\n");
    topology_ = LoadTopology(folder_ / "t.prototxt", {"udp"});
    node_.name = "b";
    segment_.name = "lan";
  }
  void WriteBench(const std::string& cluster, double megabytes) {
    WriteFile(
        folder_ / "t.prototxt.bench.json",
        StrCat("{\"cluster\": \"", cluster, "\", \"segment\": [{\"name\": \"lan\", \"end\": [",
               "{\"node\": \"a\", \"wire_megabytes_out\": 1}, {\"node\": \"b\", ",
               "\"wire_megabytes_out\": ", megabytes, "}]}]}"));
  }

  TempDir folder_;
  Topology topology_;
  NodePlan node_;
  SegmentPlan segment_;
};

TEST_F(LinkRateTest, IsNotKnownWhereNothingSaysIt) {
  EXPECT_EQ(RateOf(topology_, node_, segment_).megabits, 0);
}

TEST_F(LinkRateTest, IsTheLeastThatIsSaid) {
  WriteBench("c", 25);
  LinkRate rate = RateOf(topology_, node_, segment_);
  EXPECT_EQ(rate.megabits, 200);
  EXPECT_CONTAINS(rate.source, "t.prototxt.bench.json");
  segment_.max_bytes_per_second = 1e6;
  rate = RateOf(topology_, node_, segment_);
  EXPECT_EQ(rate.megabits, 8);
  EXPECT_EQ(rate.source, "max_mbps");
  segment_.max_bytes_per_second = 1e9;
  EXPECT_EQ(RateOf(topology_, node_, segment_).megabits, 200);
}

std::string EstimateError(const Topology& topology, const NodePlan& node,
                          const SegmentPlan& segment) {
  try {
    RateOf(topology, node, segment);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(LinkRateTest, RefusesAFileOfSomethingElse) {
  WriteBench("other", 25);
  EXPECT_CONTAINS(EstimateError(topology_, node_, segment_),
                  "t.prototxt.bench.json: cluster: \"other\" given, expected \"c\"");
  WriteFile(folder_ / "t.prototxt.bench.json", "{\"cluster\": ");
  EXPECT_CONTAINS(EstimateError(topology_, node_, segment_),
                  "t.prototxt.bench.json: not what millrace bench --json prints");
}

}  // namespace
}  // namespace millrace::test
