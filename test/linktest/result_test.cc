#include "linktest/result.h"

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "test/linktest/measure_support.h"

namespace millrace {
namespace {

using test::Measured;
using test::Three;

const BenchFlow& Flow(const BenchSegmentResult& segment, const std::string& from,
                      const std::string& to) {
  for (const BenchFlow& flow : segment.flow()) {
    if (flow.from() == from && flow.to() == to) return flow;
  }
  ADD_FAILURE() << "nothing from " << from << " to " << to;
  return segment.flow(0);
}

TEST(BenchResult, HasEachPairOfEachSegmentBothWays) {
  const BenchResult result = ResultOf(Three(), Measured());
  ASSERT_EQ(result.segment_size(), 3);
  EXPECT_EQ(result.segment(0).flow_size(), 6);
  EXPECT_EQ(result.segment(1).flow_size(), 2);
  EXPECT_EQ(result.segment(0).end_size(), 3);
  EXPECT_EQ(result.node_size(), 3);
  EXPECT_EQ(result.segment(1).codec(), "int8");
  EXPECT_EQ(result.segment(0).max_mbps(), 800);
}

TEST(BenchResult, TakesSendingFromOneEndAndArrivingFromTheOther) {
  Measurement measurement = Measured();
  // Three quarters of 4000 weights in 30 chunks of 100 weights (400 bytes).
  BenchPeer* a_to_c = measurement.reports[0].mutable_end(0)->mutable_peer(1);
  a_to_c->set_frames_sent(5000);
  a_to_c->set_all_frames_sent(8000);
  a_to_c->set_resends(30);
  BenchPeer* c_from_a = measurement.reports[2].mutable_end(0)->mutable_peer(0);
  c_from_a->set_positions_taken(6000);
  c_from_a->set_diffs_merged(3000);
  c_from_a->set_all_frames_received(7600);
  measurement.reports[2].set_seconds(3);
  const BenchResult result = ResultOf(Three(), measurement);
  EXPECT_EQ(result.segment(0).chunks(), 30u);
  const BenchFlow& flow = Flow(result.segment(0), "a", "c");
  EXPECT_DOUBLE_EQ(flow.frames(), 2500);             // in a's 2 s
  EXPECT_DOUBLE_EQ(flow.position_megabytes(), 0.8);  // in c's 3 s
  EXPECT_DOUBLE_EQ(flow.difference_megabytes(), 0.4);
  EXPECT_DOUBLE_EQ(flow.frame_megabytes(), 0.5);
  EXPECT_DOUBLE_EQ(flow.resends(), 15);
  EXPECT_NEAR(flow.loss(), 0.05, 1e-12);
  EXPECT_DOUBLE_EQ(flow.round_trip_ms_p99(), 12.25);
  EXPECT_NEAR(Flow(result.segment(0), "c", "a").loss(), 0.005, 1e-12);
}

TEST(BenchResult, MoreReceivedThanSentIsNoLoss) {
  Measurement measurement = Measured();
  measurement.reports[1].mutable_end(0)->mutable_peer(0)->set_all_frames_received(2010);
  EXPECT_EQ(Flow(ResultOf(Three(), measurement).segment(0), "a", "b").loss(), 0);
}

TEST(BenchResult, HoldsTheWireAgainstWhatIsLessThePaceOrTheLink) {
  Measurement measurement = Measured();
  measurement.reports[2].mutable_end(0)->set_link_megabits(100);
  measurement.reports[1].mutable_end(1)->set_link_megabits(0);
  const BenchResult result = ResultOf(Three(), measurement);
  const BenchEndResult& a = result.segment(0).end(0);
  EXPECT_EQ(a.limited_by(), "max_mbps");
  EXPECT_DOUBLE_EQ(a.wire_megabytes_out(), 50);
  EXPECT_DOUBLE_EQ(a.of_limit(), 0.5);  // 400 of 800 Mbit/s
  const BenchEndResult& c = result.segment(0).end(2);
  EXPECT_EQ(c.limited_by(), "link");
  EXPECT_DOUBLE_EQ(c.of_limit(), 4);
  EXPECT_EQ(result.segment(1).end(0).limited_by(), "link");
  EXPECT_FALSE(result.segment(1).end(1).has_of_limit());  // the limit is unknown
}

TEST(BenchResult, CountsProcessorTimeByGigabyteMoved) {
  const BenchResult result = ResultOf(Three(), Measured());
  // 100 MB out and 100 MB in on lan.
  EXPECT_DOUBLE_EQ(result.segment(0).end(0).thread_cpu_seconds_per_gigabyte(), 0.5 / 0.2);
  EXPECT_DOUBLE_EQ(result.segment(0).end(0).thread_cpu(), 0.25);
  // Node a moved 200 MB on lan and 100 on side, in 1.25 - 0.25 s.
  EXPECT_DOUBLE_EQ(result.node(0).megabytes_moved(), 300);
  EXPECT_DOUBLE_EQ(result.node(0).process_cpu_seconds_per_gigabyte(), 1 / 0.3);
}

TEST(BenchResult, LeavesOutWhatANodeWithoutAReportCouldHaveSaid) {
  Measurement measurement = Measured();
  measurement.reports.erase(2);
  const BenchResult result = ResultOf(Three(), measurement);
  ASSERT_EQ(result.without_report_size(), 1);
  EXPECT_EQ(result.without_report(0), "c");
  const BenchFlow& to = Flow(result.segment(0), "a", "c");
  EXPECT_TRUE(to.has_frames());
  EXPECT_FALSE(to.has_loss());
  EXPECT_FALSE(to.has_position_megabytes());
  const BenchFlow& from = Flow(result.segment(0), "c", "a");
  EXPECT_FALSE(from.has_frames());
  EXPECT_TRUE(from.has_position_megabytes());
  EXPECT_EQ(result.segment(0).end_size(), 2);
}

TEST(BenchResult, LeavesOutNodesThatDidNotComeAndSegmentsThatNobodyReports) {
  Measurement measurement = Measured();
  measurement.participants = {0, 2};
  measurement.missing = {"b"};
  measurement.reports.erase(1);
  measurement.reports[0].mutable_end()->RemoveLast();
  const BenchResult result = ResultOf(Three(), measurement);
  ASSERT_EQ(result.segment_size(), 2);
  EXPECT_EQ(result.segment(0).flow_size(), 2);  // from a to c and from c to a
  EXPECT_EQ(result.segment(1).name(), "back");
  EXPECT_EQ(result.segment(1).flow_size(), 0);
  EXPECT_EQ(result.missing(0), "b");
}

TEST(BenchResult, TimesOfZeroMakeNoInfinities) {
  Measurement measurement = Measured();
  for (auto& [node, report] : measurement.reports) {
    report.set_seconds(0);
    for (BenchEnd& end : *report.mutable_end()) {
      end.set_wire_bytes_out(0);
      end.set_bytes_in(0);
      for (BenchPeer& peer : *end.mutable_peer()) peer.set_all_frames_sent(0);
    }
  }
  const std::string json = ResultJson(ResultOf(Three(), measurement));
  EXPECT_EQ(json.find("Infinity"), std::string::npos) << json;
  EXPECT_EQ(json.find("NaN"), std::string::npos) << json;
}

TEST(BenchResult, JsonIsOneLineWithTheNamesOfTheSchema) {
  const BenchResult result = ResultOf(Three(), Measured());
  const std::string json = ResultJson(result);
  EXPECT_EQ(json.find('\n'), json.size() - 1);
  EXPECT_CONTAINS(json, "\"position_megabytes\"");
  BenchResult again;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &again).ok());
  EXPECT_EQ(again.SerializeAsString(), result.SerializeAsString());
}

TEST(FitsTopology, AReportOfTheNodesSegmentsAndPeers) {
  for (NodeId node : {0, 1, 2}) {
    EXPECT_TRUE(FitsTopology(test::ReportOfNode(node), node, Three())) << node;
  }
  EXPECT_TRUE(FitsTopology(BenchReport(), 0, Three()));
}

TEST(FitsTopology, NothingElseDoes) {
  const auto refused = [](NodeId node, const std::function<void(BenchReport*)>& spoil) {
    BenchReport report = test::ReportOfNode(node);
    spoil(&report);
    return !FitsTopology(report, node, Three());
  };
  const auto end = [](BenchReport* r) { return r->mutable_end(0); };
  EXPECT_TRUE(refused(0, [&](auto* r) { end(r)->set_segment(3); }));
  EXPECT_TRUE(refused(0, [&](auto* r) { end(r)->set_segment(2); }));  // not a segment of this node
  EXPECT_TRUE(refused(0, [&](auto* r) { *r->add_end() = r->end(0); }));
  EXPECT_TRUE(refused(0, [&](auto* r) { end(r)->set_chunk_weights(0); }));
  EXPECT_TRUE(refused(0, [&](auto* r) { end(r)->set_sweeps(-1); }));
  EXPECT_TRUE(refused(0, [&](auto* r) { end(r)->mutable_peer(0)->set_node(0); }));
  EXPECT_TRUE(refused(0, [&](auto* r) { end(r)->mutable_peer(0)->set_node(2); }));  // duplicate
  EXPECT_TRUE(refused(0, [&](auto* r) { end(r)->mutable_peer(0)->set_node(70000); }));
  EXPECT_TRUE(refused(0, [&](auto* r) { r->mutable_end(1)->mutable_peer(0)->set_node(2); }));
  EXPECT_TRUE(refused(0, [&](auto* r) { end(r)->add_drop()->set_reason(std::string(41, 'x')); }));
  EXPECT_TRUE(refused(0, [&](auto* r) { end(r)->add_drop()->set_reason("a\n"); }));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(refused(0, [&](auto* r) { r->set_seconds(nan); }));
  EXPECT_TRUE(refused(0, [&](auto* r) { end(r)->mutable_peer(0)->set_round_trip_ms_p50(nan); }));
}

}  // namespace
}  // namespace millrace
