// The metrics of a process against the tables of docs/operations.md.
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <set>
#include <tuple>

#include "metrics/counter_file_layout.h"
#include "metrics/metrics_reading.h"
#include "metrics/openmetrics.h"
#include "metrics/registry.h"
#include "test/sim/segment_cluster.h"
#include "test/support/doc_page.h"
#include "test/support/support.h"
#include "train/run_counters.h"

namespace millrace {
namespace {

using test::Cells;

std::vector<Cells> RowsOf(const std::string& section) {
  std::vector<Cells> rows = test::ReadDocPage("docs/operations.md")[section].rows;
  for (Cells& row : rows) std::erase(row.at(0), '`');
  return rows;
}

// Metrics of a process with a segment of two nodes that exchange gossip messages.
MetricsReading OfARun() {
  MetricsRegistry registry;
  sim::SegmentCluster nodes(2, 1000);
  nodes.gossip = [](int node) {
    return std::make_shared<GossipStore>(2, static_cast<NodeId>(node), 1);
  };
  nodes.StartOther(0, [&](NetSegmentConfig* config) {
    config->name = "lan";
    config->registry = &registry;
  });
  nodes.Start(1);
  for (int i = 0; i < 40000 && !nodes.Together(); ++i) nodes.Pass();
  nodes.TakeTurns(1000);
  const IterationClock iterations;
  RunCounters run(std::shared_ptr<MetricsRegistry>(&registry, [](MetricsRegistry*) {}), "run",
                  &iterations, 1, 1);
  run.Update(0.5f, 0, {});
  return registry.Read();
}

std::string Joined(const MetricLabels& labels) {
  std::string keys;
  for (const auto& [key, value] : labels) keys += (keys.empty() ? "" : ", ") + key;
  return keys;
}

TEST(MetricsDoc, ThePageListsExactlyTheMetricsOfARun) {
  const MetricsReading reading = OfARun();
  std::set<std::tuple<std::string, std::string, std::string>> exist, listed;
  for (const MetricsReading::Metric& metric : reading.metrics) {
    const MetricsReading::Family& family = reading.families[metric.family];
    const bool is_histogram = family.type == MetricType::kHistogram;
    exist.emplace(is_histogram ? HistogramName(family.name) : family.name, NameOf(family.type),
                  is_histogram ? "le" : Joined(metric.labels));
  }
  for (const Cells& row : RowsOf("Metrics")) listed.emplace(row.at(0), row.at(1), row.at(2));
  EXPECT_EQ(listed, exist);
}

TEST(MetricsDoc, AllMetricsOfARunFollowTheConventionsOfPrometheus) {
  const MetricsReading reading = OfARun();
  const std::set<std::string> units = {"", "bytes", "seconds"};
  for (const MetricsReading::Family& family : reading.families) {
    SCOPED_TRACE(family.name);
    EXPECT_TRUE(family.name.starts_with("millrace_"));
    EXPECT_EQ(family.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789"),
              std::string::npos);
    EXPECT_TRUE(family.help.ends_with("."));
    EXPECT_TRUE(units.contains(family.unit));
    const bool is_histogram = family.type == MetricType::kHistogram;
    std::string name(is_histogram ? HistogramName(family.name) : family.name);
    EXPECT_EQ(name.ends_with("_total"), !is_histogram && family.type != MetricType::kGauge);
    if (name.ends_with("_total")) name.resize(name.size() - 6);
    for (const std::string unit : {"bytes", "seconds"}) {
      EXPECT_EQ(name.ends_with("_" + unit), family.unit == unit);
    }
  }
}

TEST(MetricsDoc, ACountIsTheSameInTheMetricAndInTheSegment) {
  MetricsRegistry registry;
  sim::SegmentCluster nodes(2, 1000);
  nodes.StartOther(0, [&](NetSegmentConfig* config) {
    config->name = "lan";
    config->registry = &registry;
  });
  nodes.Start(1);
  for (int i = 0; i < 40000 && !nodes.Together(); ++i) nodes.Pass();
  nodes.TakeTurns(4000);
  nodes.Run(3000);
  const MetricsReading reading = registry.Read();
  const ExchangeStats stats = nodes.net(0).exchange().stats();
  const auto value = [&](const char* name) { return reading.Value("segment lan", name); };
  EXPECT_EQ(value("members"), 2);
  EXPECT_EQ(value("in_sync"), 1);
  EXPECT_EQ(value("is_leader"), nodes.net(0).state().is_leader());
  EXPECT_EQ(value("positions_taken"), stats.positions_taken);
  EXPECT_EQ(value("diffs_sent"), stats.diffs_taken);
  EXPECT_EQ(value("diffs_merged"), stats.diffs_merged);
  EXPECT_EQ(value("sent_bytes"), stats.bytes_sent);
  EXPECT_EQ(value("received_bytes"), stats.bytes_received);
  EXPECT_EQ(value("wire_sent_bytes"), nodes.net(0).metrics().wire_bytes());
  EXPECT_EQ(value("sweeps"), nodes.net(0).exchange().metrics().sweeps());
  EXPECT_EQ(value("duty"), 1);
  EXPECT_EQ(value("age_max_seconds"), nodes.net(0).sampler().all().age_max_ns * 1e-9);
  double sent = 0;
  for (const uint64_t frames : stats.sent) sent += frames;
  EXPECT_EQ(value("frames_sent"), sent);
  const PeerStats peer = nodes.net(0).metrics().peer(1);
  const auto of_peer = [&](const char* name) { return reading.Value("peer node1 on lan", name); };
  EXPECT_EQ(of_peer("positions_taken"), peer.positions_taken);
  EXPECT_EQ(of_peer("diffs_merged"), peer.diffs_merged);
  EXPECT_EQ(of_peer("sweeps"), peer.sweeps);
  EXPECT_NEAR(of_peer("frames_received"), peer.frames_in, 3);  // heartbeats of the last 50 ms
  for (const char* name : {"members", "positions_taken", "diffs_sent", "frames_sent", "sweeps",
                           "wire_sent_bytes", "received_bytes", "passes", "idle_passes"}) {
    EXPECT_GT(value(name), 0) << name;
  }
}

TEST(MetricsDoc, ACounterFileLiesAsThePageSays) {
  namespace layout = counter_file_layout;
  using layout::Head;
  std::vector<size_t> offsets;
  for (Cells row : RowsOf("Counter files")) {
    std::erase(row.at(0), ',');
    offsets.push_back(std::stoul(row.at(0)));
  }
  EXPECT_EQ(offsets, (std::vector<size_t>{
                         offsetof(Head, magic), offsetof(Head, version), offsetof(Head, pid),
                         offsetof(Head, start_time), offsetof(Head, families),
                         offsetof(Head, metrics), offsetof(Head, title), offsetof(Head, reserved),
                         layout::kFamiliesAt, layout::kValuesAt, layout::kMetricsAt}));
}

TEST(MetricsDoc, ThePageListsExactlyTheDropReasons) {
  std::vector<Cells> listed = RowsOf("Drop reasons"), exist;
  std::map<DropReason, std::string> components;
  for (size_t i = 0; i < kDropComponents; ++i) {
    for (const DropReason reason : DropReasonsOf(static_cast<DropComponent>(i))) {
      std::string& text = components[reason];
      text += (text.empty() ? "" : ", ") + std::string(DropComponentName(DropComponent(i)));
    }
  }
  for (const auto& [reason, text] : components) {
    exist.push_back({DropReasonName(reason), text, DropReasonHelp(reason)});
  }
  EXPECT_EQ(exist.size(), kDropReasons - 1);  // each is of some component
  EXPECT_EQ(listed, exist);
}

}  // namespace
}  // namespace millrace
