#include "linktest/result.h"

#include <gtest/gtest.h>

#include <sstream>

#include "test/linktest/measure_support.h"

namespace millrace {
namespace {

std::string TableOf(const Measurement& measurement) {
  return BenchTable(ResultOf(test::Three(), measurement));
}

TEST(BenchTable, SaysWhatWasMeasured) {
  Measurement measurement = test::Measured();
  test::AddEnd(1, {}, &measurement.reports[0]);
  measurement.reports[0].mutable_end()->RemoveLast();
  BenchDrop* drop = measurement.reports[1].mutable_end(0)->add_drop();
  drop->set_reason("overrun");
  drop->set_frames(12);
  measurement.reports[0].mutable_end(0)->mutable_peer(0)->set_all_frames_sent(10'000'000);
  measurement.reports[1].mutable_end(0)->mutable_peer(0)->set_all_frames_received(9'999'990);
  // clang-format off
  EXPECT_EQ(TableOf(measurement),
R"(cluster three: 4000 weights (0.0 MB) between 3 nodes, 2 s after 1 s of warm-up

segment lan: udp, mtu 1500, float32, 30 chunks of 100 weights, max_mbps 800 Mbit/s a node
  from   to      positions      diffs       sent     frames      lost    resent   round trip, ms
                      MB/s       MB/s       MB/s      per s  of these     per s      p50     p99
  a      b            0.08       0.04       0.50        500   0.0001%       3.0     1.50   12.25
  a      c            0.08       0.04       0.50        500     0.50%       3.0     1.50   12.25
  b      a            0.08       0.04       0.50        500     0.50%       3.0     1.50   12.25
  b      c            0.08       0.04       0.50        500     0.50%       3.0     1.50   12.25
  c      a            0.08       0.04       0.50        500     0.50%       3.0     1.50   12.25
  c      b            0.08       0.04       0.50        500     0.50%       3.0     1.50   12.25
  node     wire out         in            of the limit     sweeps     thread      CPU s
               MB/s       MB/s                              per s        CPU     per GB
  a           50.00      50.00  50% of max_mbps 800 Mb      15.00      25.0%      2.500
  b           50.00      50.00  50% of max_mbps 800 Mb      15.00      25.0%      2.500
  c           50.00      50.00  50% of max_mbps 800 Mb      15.00      25.0%      2.500
  dropped by b: overrun 12

segment side: udp, mtu 1500, int8, 10 chunks of 100 weights
  from   to      positions      diffs       sent     frames      lost    resent   round trip, ms
                      MB/s       MB/s       MB/s      per s  of these     per s      p50     p99
  a      b            0.08       0.04       0.50        500     0.50%       3.0     1.50   12.25
  b      a            0.08       0.04       0.50        500     0.50%       3.0     1.50   12.25
  node     wire out         in            of the limit     sweeps     thread      CPU s
               MB/s       MB/s                              per s        CPU     per GB
  a           25.00      25.00     20% of link 1000 Mb      15.00      25.0%      5.000
  b           25.00      25.00     20% of link 1000 Mb      15.00      25.0%      5.000

segment back: udp, mtu 1500, float32, 10 chunks of 100 weights
  from   to      positions      diffs       sent     frames      lost    resent   round trip, ms
                      MB/s       MB/s       MB/s      per s  of these     per s      p50     p99
  b      c            0.08       0.04       0.50        500     0.50%       3.0     1.50   12.25
  c      b            0.08       0.04       0.50        500     0.50%       3.0     1.50   12.25
  node     wire out         in            of the limit     sweeps     thread      CPU s
               MB/s       MB/s                              per s        CPU     per GB
  b           25.00      25.00     20% of link 1000 Mb      15.00      25.0%      5.000
  c           25.00      25.00     20% of link 1000 Mb      15.00      25.0%      5.000

node         MB moved        CPU s    of it, load CPU s per GB
a               300.0         1.25           0.25        3.333
b               400.0         1.25           0.25        2.500
c               300.0         1.25           0.25        3.333
)");
  // clang-format on
}

TEST(BenchTable, NamesWhoDidNotComeAndWhoSentNoReport) {
  Measurement measurement = test::Measured();
  measurement.participants = {0, 2};
  measurement.missing = {"b"};
  measurement.reports.erase(1);
  measurement.reports.erase(2);
  const std::string table = TableOf(measurement);
  EXPECT_CONTAINS(table, "\nnot there: b\n");
  EXPECT_CONTAINS(table, "\nno report: c\n");
  EXPECT_CONTAINS(
      table, "  a      c               -          -       0.50        500         -       3.0");
  EXPECT_CONTAINS(table, "  c      a            0.08       0.04          -          -         -");
}

TEST(BenchTable, IsNotWiderThanATerminal) {
  Measurement measurement = test::Measured();
  for (auto& [node, report] : measurement.reports) {
    for (BenchEnd& end : *report.mutable_end()) {
      end.set_wire_bytes_out(24'000'000'000);
      end.set_bytes_in(24'000'000'000);
      end.set_link_megabits(400'000);
      for (BenchPeer& peer : *end.mutable_peer()) {
        peer.set_frames_sent(9'000'000);
        peer.set_bytes_sent(80'000'000'000);
        peer.set_resends(900'000);
        peer.set_positions_taken(1'000'000'000);
        peer.set_round_trip_ms_p99(2000);
      }
    }
  }
  std::istringstream lines(TableOf(measurement));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

}  // namespace
}  // namespace millrace
