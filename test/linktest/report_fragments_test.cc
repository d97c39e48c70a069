#include "linktest/bench_phase.h"

#include <gtest/gtest.h>

#include "segment/gossip/gossip_message.h"
#include "test/linktest/measure_support.h"

namespace millrace {
namespace {

// A report that needs `pages` pages.
BenchReport LongReport(size_t pages, const std::string& text) {
  BenchReport report;
  BenchEnd* end = report.add_end();
  while (report.ByteSizeLong() < (pages - 1) * kReportPageBytes + 100) {
    end->add_drop()->set_reason(text);
  }
  return report;
}

// Nodes that report to node 0.
class Reporting {
 public:
  void Add(NodeId node, const BenchReport& report) {
    writers_.emplace_back(node, ReportWriter(node, report));
    participants_.push_back(node);
  }
  // Reads all published statuses once; each writer first answers the leader's request.
  bool Round() {
    BenchPhases::Others others;
    BenchStatus leader;
    reader_.Ask(&leader);
    for (const auto& [node, writer] : writers_) {
      BenchStatus& status = others[node];
      status.set_version(1);
      status.set_phase(BenchStatus::REPORTED);
      writer.Write(&leader, &status);
      EXPECT_LE(status.ByteSizeLong(), kMaxGossipBytes);
    }
    return reader_.Read(others, participants_, 0);
  }
  const ReportReader& reader() const { return reader_; }

 private:
  std::vector<NodeId> participants_ = {0};
  std::vector<std::pair<NodeId, ReportWriter>> writers_;
  ReportReader reader_;
};

TEST(ReportFragments, BringOnePageAtOnce) {
  Reporting nodes;
  nodes.Add(1, test::ReportOfNode(1));
  nodes.Add(2, test::ReportOfNode(2));
  EXPECT_TRUE(nodes.Round());
  for (NodeId node : {1, 2}) {
    EXPECT_EQ(nodes.reader().reports().at(node).SerializeAsString(),
              test::ReportOfNode(node).SerializeAsString());
  }
}

TEST(ReportFragments, BringLongReportsPageByPage) {
  Reporting nodes;
  nodes.Add(1, LongReport(3, "one"));
  nodes.Add(2, test::ReportOfNode(2));
  nodes.Add(3, LongReport(4, "three"));
  int rounds = 1;
  while (!nodes.Round()) ASSERT_LT(++rounds, 20);
  EXPECT_EQ(rounds, 6);  // one round for all first pages, then two and three more
  EXPECT_EQ(nodes.reader().reports().at(1).SerializeAsString(),
            LongReport(3, "one").SerializeAsString());
  EXPECT_EQ(nodes.reader().reports().at(3).SerializeAsString(),
            LongReport(4, "three").SerializeAsString());
}

BenchStatus Page(uint32_t page, uint32_t pages, const std::string& bytes) {
  BenchStatus status;
  status.set_version(1);
  status.set_phase(BenchStatus::REPORTED);
  status.set_page(page);
  status.set_pages(pages);
  status.set_page_bytes(bytes);
  return status;
}

TEST(ReportFragments, DoNotWaitForWhatIsNoReport) {
  ReportReader reader;
  EXPECT_TRUE(reader.Read({{1, Page(0, 1, "\xff\xff")}}, {0, 1}, 0));
  EXPECT_TRUE(reader.reports().empty());
  EXPECT_TRUE(reader.Read({{1, Page(0, 1, "")}}, {0, 1}, 0));  // too late
  EXPECT_TRUE(reader.reports().empty());
}

TEST(ReportFragments, DoNotWaitForAReportThatChangesItsLengthOrHasNoEnd) {
  ReportReader reader;
  EXPECT_FALSE(reader.Read({{1, Page(0, 3, "")}}, {0, 1}, 0));
  EXPECT_TRUE(reader.Read({{1, Page(1, 2, "")}}, {0, 1}, 0));
  EXPECT_TRUE(ReportReader().Read({{1, Page(0, 4'000'000'000, "")}}, {0, 1}, 0));
  EXPECT_TRUE(reader.reports().empty());
}

TEST(ReportFragments, WaitForWhoHasNotReportedButNotForWhoHasGone) {
  ReportReader reader;
  BenchStatus quiet = Page(0, 1, "");
  quiet.set_phase(BenchStatus::QUIET);
  EXPECT_FALSE(reader.Read({{1, quiet}}, {0, 1, 2}, 0));
  BenchStatus stopped = quiet;
  stopped.set_phase(BenchStatus::STOPPED);
  EXPECT_TRUE(reader.Read({{1, stopped}}, {0, 1, 2}, 0));
  BenchStatus asks;
  reader.Ask(&asks);
  EXPECT_FALSE(asks.has_asked_node());
}

}  // namespace
}  // namespace millrace
