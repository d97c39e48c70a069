#include "linktest/reading.h"

#include <gtest/gtest.h>

#include "cluster/sweep_estimate.h"
#include "test/linktest/measure_support.h"

namespace millrace {
namespace {

// Counters that have all grown in proportion to `times`.
MetricsSnapshot ReadingAfter(int64_t times) {
  MetricsSnapshot reading;
  reading.at_ns = times * 1'000'000'000;
  reading.process_cpu_ns = times * 500'000'000;
  reading.load_cpu_ns = times * 20'000'000;
  EndReading end;
  end.wire_bytes_out = 1000 * times;
  end.bytes_in = 2000 * times;
  end.moved = times;
  end.sweeps = 1.5 * static_cast<double>(times);
  end.thread_cpu_ns = times * 250'000'000;
  end.drops = {{"none", 0}, {"old", 3 * times}, {"overrun", 7}};
  PeerStats peer;
  peer.frames_out = 10 * times;
  peer.bytes_out = 100 * times;
  peer.frames_in = 20 * times;
  peer.positions_taken = 30 * times;
  peer.diffs_merged = 40 * times;
  peer.resends = 50 * times;
  for (int64_t i = 0; i < 100 * times; ++i) {
    peer.round_trip.Add(times < 4 ? 90'000'000'000 : 1'000'000);
  }
  end.peers[2] = peer;
  reading.ends.push_back(end);
  return reading;
}

TEST(Report, HasRatesFromTheMeasurementAndLossesFromRestToRest) {
  const BenchReport report = ReportOf({{4, 348, 1000}}, ReadingAfter(1), ReadingAfter(3),
                                      ReadingAfter(8), ReadingAfter(11));
  EXPECT_FLOAT_EQ(report.seconds(), 5);
  EXPECT_FLOAT_EQ(report.process_cpu_seconds(), 2.5);
  EXPECT_FLOAT_EQ(report.load_cpu_seconds(), 0.1);
  ASSERT_EQ(report.end_size(), 1);
  const BenchEnd& end = report.end(0);
  EXPECT_EQ(end.segment(), 4u);
  EXPECT_EQ(end.chunk_weights(), 348u);
  EXPECT_EQ(end.link_megabits(), 1000u);
  EXPECT_EQ(end.wire_bytes_out(), 5000u);
  EXPECT_EQ(end.bytes_in(), 10000u);
  EXPECT_FLOAT_EQ(end.sweeps(), 7.5);
  EXPECT_FLOAT_EQ(end.thread_cpu_seconds(), 1.25);
  ASSERT_EQ(end.drop_size(), 1);  // reasons with a count of zero are omitted
  EXPECT_EQ(end.drop(0).reason(), "old");
  EXPECT_EQ(end.drop(0).frames(), 30);
  ASSERT_EQ(end.peer_size(), 1);
  const BenchPeer& peer = end.peer(0);
  EXPECT_EQ(peer.node(), 2u);
  EXPECT_EQ(peer.frames_sent(), 50u);
  EXPECT_EQ(peer.bytes_sent(), 500u);
  EXPECT_EQ(peer.positions_taken(), 150u);
  EXPECT_EQ(peer.diffs_merged(), 200u);
  EXPECT_EQ(peer.resends(), 250u);
  EXPECT_EQ(peer.all_frames_sent(), 100u);
  EXPECT_EQ(peer.all_frames_received(), 200u);
}

TEST(Report, HasRoundTripsOfTheMeasurementOnly) {
  MetricsSnapshot begin = ReadingAfter(3), end = ReadingAfter(3);
  for (int i = 0; i < 99; ++i) end.ends[0].peers[2].round_trip.Add(1'000'000);
  end.ends[0].peers[2].round_trip.Add(40'000'000);
  end.ends[0].peers[2].round_trip.Add(40'000'000);
  const BenchReport report = ReportOf({{0, 1, 0}}, begin, begin, end, end);
  EXPECT_NEAR(report.end(0).peer(0).round_trip_ms_p50(), 1, 0.125);
  EXPECT_NEAR(report.end(0).peer(0).round_trip_ms_p99(), 40, 5);
}

TEST(Report, OfANodeFitsItsTopology) {
  const MetricsSnapshot reading = ReadingAfter(2);
  EXPECT_TRUE(
      FitsTopology(ReportOf({{0, 10, 0}}, reading, reading, reading, reading), 0, test::Three()));
}

TEST(QuiescenceDetector, RestsOnceNothingHasMovedForASecond) {
  QuiescenceDetector watch;
  EXPECT_FALSE(watch.IsQuiescent(5, 100));
  EXPECT_FALSE(watch.IsQuiescent(5, 100.9));
  EXPECT_FALSE(watch.IsQuiescent(6, 100.95));
  EXPECT_FALSE(watch.IsQuiescent(6, 101.9));
  EXPECT_TRUE(watch.IsQuiescent(6, 102));
  EXPECT_TRUE(watch.IsQuiescent(6, 110));
  EXPECT_FALSE(watch.IsQuiescent(7, 111));
}

TEST(QuiescenceDetector, GivesUpWhereThingsMoveForEver) {
  QuiescenceDetector watch;
  uint64_t moved = 0;
  double now = 0;
  while (!watch.IsQuiescent(++moved, now)) {
    now += 0.5;
    ASSERT_LT(now, 60);
  }
  EXPECT_EQ(now, 10);
}

TEST(LinkSpeed, IsNotKnownOfLoopbackNorOfAddressesThatNoInterfaceHas) {
  SegmentPlan plan;
  EXPECT_EQ(LinkMegabits(plan), 0u);
  for (const char* address : {"127.0.0.1:7000", "[::1]:7000", "192.0.2.77:7000", "no address"}) {
    plan.transport.options["address"] = address;
    EXPECT_EQ(LinkMegabits(plan), 0u) << address;
  }
  plan.transport.options["interface"] = "lo";
  EXPECT_EQ(LinkMegabits(plan), 0u);
  plan.transport.options["interface"] = "there is no such interface";
  EXPECT_EQ(LinkMegabits(plan), 0u);
}

}  // namespace
}  // namespace millrace
