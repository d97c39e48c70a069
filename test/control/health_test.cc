#include "control/health.h"

#include <gtest/gtest.h>

#include <random>

#include "test/support/support.h"

namespace millrace::test {
namespace {

// The metrics of a node with two solvers and links to b and c, which go on as a test says.
class Node {
 public:
  struct Second {
    double iterations = 100, data_wait = 0, processor_wait = 0, diffs = 1000, damped = 0;
    double frames_of_b = 500, resent_to_b = 0, round_trip_of_b = 0.01, age_of_b = 0.05;
    bool trains = true;
  };
  control_api::Health After(int seconds, const Second& second) {
    for (int i = 0; i < seconds; ++i) {
      ++now_;
      iterations_ += second.iterations;
      data_wait_ += second.data_wait;
      processor_wait_ += second.processor_wait;
      diffs_ += second.diffs;
      damped_ += second.damped;
      frames_of_b_ += second.frames_of_b;
      resent_to_b_ += second.resent_to_b;
      Add(second);
    }
    return monitor_.health();
  }

 private:
  void Add(const Second& second) {
    MetricsReading reading;
    const auto add = [&](const char* name, double value, const char* peer = nullptr,
                         bool of_segment = false) {
      reading.families.push_back({.name = name, .help = "", .unit = "", .number = ""});
      MetricLabels labels;
      if (peer != nullptr || of_segment) labels.emplace_back("segment", "lan");
      if (peer != nullptr) labels.emplace_back("peer", peer);
      reading.metrics.push_back(
          {static_cast<uint32_t>(reading.families.size() - 1), labels, "", "", value});
    };
    add("millrace_run_solvers", 2);
    add("millrace_run_iterations_here_total", iterations_);
    add("millrace_run_data_wait_seconds_total", data_wait_);
    add("millrace_run_processor_wait_seconds_total", processor_wait_);
    add("millrace_segment_diffs_sent_total", diffs_, nullptr, true);
    add("millrace_segment_diffs_damped_total", damped_, nullptr, true);
    for (const char* peer : {"b", "c"}) {
      const bool is_b = *peer == 'b';
      add("millrace_peer_frames_received_total", is_b ? frames_of_b_ : now_ * 500, peer);
      add("millrace_peer_sent_bytes_total", now_ * 1e6, peer);
      add("millrace_peer_received_bytes_total", now_ * 2e6, peer);
      add("millrace_peer_diffs_sent_total", diffs_ / 2, peer);
      add("millrace_peer_resends_total", is_b ? resent_to_b_ : 0, peer);
      add("millrace_peer_round_trip_p50_seconds", is_b ? second.round_trip_of_b : 0.01, peer);
      add("millrace_peer_age_p50_seconds", is_b ? second.age_of_b : 0.05, peer);
    }
    monitor_.Add(now_, reading, second.trains);
  }

  HealthMonitor monitor_;
  double now_ = 1000;
  double iterations_ = 0, data_wait_ = 0, processor_wait_ = 0, diffs_ = 0, damped_ = 0;
  double frames_of_b_ = 100, resent_to_b_ = 0;
};

std::string ProblemOf(const control_api::Health& health, const std::string& peer) {
  for (const control_api::Link& link : health.link()) {
    if (link.peer() == peer) return link.problem();
  }
  ADD_FAILURE() << "no link to " << peer;
  return "";
}

TEST(HealthMonitorTest, GivesRatesAndShares) {
  Node node;
  const auto health =
      node.After(10, {.iterations = 40, .data_wait = 0.1, .processor_wait = 0.2, .damped = 250});
  EXPECT_DOUBLE_EQ(health.iterations_per_second(), 40);
  EXPECT_NEAR(health.data_share(), 0.05, 1e-9);  // of two solvers
  EXPECT_NEAR(health.processor_share(), 0.1, 1e-9);
  EXPECT_DOUBLE_EQ(health.delayed_share(), 0.25);
  EXPECT_EQ(health.waits_for(), "");
  ASSERT_EQ(health.link_size(), 2);
  EXPECT_DOUBLE_EQ(health.link(0).sent_bytes_per_second(), 1e6);
  EXPECT_DOUBLE_EQ(health.link(0).received_bytes_per_second(), 2e6);
  EXPECT_EQ(ProblemOf(health, "b"), "");
}

// Each cause is named within ten seconds, and no longer soon after it has gone.
TEST(HealthMonitorTest, NamesWhatANodeWaitsFor) {
  Node node;
  EXPECT_EQ(node.After(20, {}).waits_for(), "");
  EXPECT_EQ(node.After(10, {.data_wait = 1}).waits_for(), "data");
  EXPECT_EQ(node.After(10, {.data_wait = 0.5, .processor_wait = 1}).waits_for(), "processor");
  EXPECT_EQ(node.After(10, {.damped = 900}).waits_for(), "network");
  EXPECT_EQ(node.After(10, {}).waits_for(), "");
}

TEST(HealthMonitorTest, NamesBadLinks) {
  Node node;
  node.After(20, {});
  EXPECT_EQ(ProblemOf(node.After(10, {.frames_of_b = 0}), "b"), "silent");
  EXPECT_EQ(ProblemOf(node.After(10, {.resent_to_b = 60}), "b"), "loses frames");
  EXPECT_EQ(ProblemOf(node.After(10, {.round_trip_of_b = 3}), "b"), "slow");
  EXPECT_EQ(ProblemOf(node.After(10, {.age_of_b = 10}), "b"), "slow");
  const auto health = node.After(10, {});
  EXPECT_EQ(ProblemOf(health, "b"), "");
  EXPECT_EQ(ProblemOf(health, "c"), "");
}

TEST(HealthMonitorTest, FindsNothingInACalmHour) {
  Node node;
  std::mt19937_64 random(Seed());
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 3600; ++i) {
    const auto health = node.After(1, {.iterations = 80 + 40 * uniform(random),
                                       .data_wait = 0.3 * uniform(random),
                                       .processor_wait = 0.35 * uniform(random),
                                       .diffs = 500 + 1000 * uniform(random),
                                       .damped = 250 * uniform(random),
                                       .frames_of_b = 1 + 1000 * uniform(random),
                                       .resent_to_b = 10 * uniform(random),
                                       .round_trip_of_b = uniform(random),
                                       .age_of_b = uniform(random)});
    ASSERT_EQ(health.waits_for(), "") << i;
    if (i == 0) continue;  // there is no second reading yet
    ASSERT_EQ(ProblemOf(health, "b"), "") << i;
  }
}

// A pause is no problem, whatever stands still.
TEST(HealthMonitorTest, FindsNothingInAPause) {
  Node node;
  node.After(20, {});
  const auto health = node.After(
      10, {.iterations = 0, .data_wait = 2, .frames_of_b = 0, .age_of_b = 100, .trains = false});
  EXPECT_FALSE(health.has_waits_for());
  EXPECT_EQ(ProblemOf(health, "b"), "");
}

}  // namespace
}  // namespace millrace::test
