#include "train/reporter.h"

#include <cstring>
#include <map>

#include "test/support/fake_clock.h"
#include "test/support/log_watch.h"
#include "test/train/train_support.h"
#include "train/solver_worker.h"

namespace millrace::test {
namespace {

// A run that displays every 4 iterations and averages over 2, on a clock that the test advances.
class Reporting : public testing::Test {
 protected:
  Reporting() {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(100), 50);
    solver.set_display(4);
    solver.set_average_loss(2);
    options_.solver_file = work_.Write("run", solver);
    config_ = LoadSolverConfig(options_.solver_file);
    net_ = std::make_unique<BuiltNet>(config_.train.param, config_.train.source,
                                      TrainNetOptions(config_, &data_));
    writer_ = std::make_unique<MetricsWriter>(work_ / "run.jsonl");
    reporter_ = std::make_unique<Reporter>(config_, options_, clock_, std::vector<MetricsSink*>{writer_.get()});
    reporter_->Start("net", 0, 8);
  }
  // One iteration, which takes 0.5 s.
  void Iterate(int64_t iteration, float loss, bool display = false) {
    clock_.AdvanceNs(500'000'000);
    reporter_->Iteration({iteration, loss, 0.25f}, *net_, display);
  }
  // All rows except the first.
  std::vector<MetricsRow> Rows() const {
    std::vector<MetricsRow> rows = ReadMetrics(work_ / "run.jsonl");
    rows.erase(rows.begin());
    return rows;
  }

  Workspace work_;
  FakeClock clock_;
  TrainOptions options_;
  SolverConfig config_;
  DataService data_{DataOptions{}};
  std::unique_ptr<BuiltNet> net_;
  std::unique_ptr<MetricsWriter> writer_;
  std::unique_ptr<Reporter> reporter_;
};

TEST_F(Reporting, TellsTheMeanLossAndTheSpeedSinceTheLastRow) {
  for (int64_t i = 0; i <= 8; ++i) Iterate(i, static_cast<float>(i));
  const std::vector<MetricsRow> rows = Rows();
  ASSERT_EQ(rows.size(), 3u);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].iter(), static_cast<int64_t>(4 * i));
    EXPECT_EQ(rows[i].time(), 0.5 + 2.0 * static_cast<double>(i));
    EXPECT_EQ(rows[i].train().loss(), i == 0 ? 0 : 4.0 * static_cast<double>(i) - 0.5);
    EXPECT_EQ(rows[i].train().learning_rate(), 0.25);
    EXPECT_EQ(rows[i].train().images_per_second(), 16);  // 8 images every 0.5 s
  }
  EXPECT_EQ(reporter_->loss(), 7.5f);
}

// The iteration whose number is due for display may have run on another machine.
TEST_F(Reporting, TellsOfAnIterationWhoseNumberDoesNotAskForIt) {
  Iterate(1, 2);
  Iterate(2, 4);
  Iterate(5, 6, true);
  const std::vector<MetricsRow> rows = Rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].iter(), 5);
  EXPECT_EQ(rows[0].train().loss(), 5);
}

TEST_F(Reporting, HasTheNumbersOfSegmentsInItsRows) {
  const auto registry = std::make_shared<MetricsRegistry>();
  const MetricInfo sent = {"millrace_segment_frames_sent_total", "Frames."};
  registry->AddCounter(sent, {{"segment", "lan"}, {"type", "diff"}})->Add(3);
  registry->AddCounter(sent, {{"segment", "lan"}, {"type", "position"}})->Add(4);
  registry->AddCounter(sent, {{"segment", "lan"}, {"type", "accept"}});
  registry->AddCounter(sent, {{"segment", "wan"}, {"type", "diff"}});
  registry->AddGauge({"millrace_segment_duty", "Duty."}, {{"segment", "lan"}})->Set(0.5);
  registry->AddGauge({"millrace_run_loss", "Loss."})->Set(1);
  registry->AddGauge({"millrace_peer_duty", "Duty."}, {{"segment", "lan"}, {"peer", "b"}})->Set(1);
  reporter_->Watch(registry);
  Iterate(0, 1);
  const std::vector<MetricsRow> rows = Rows();
  ASSERT_EQ(rows.size(), 1u);
  const std::map<std::string, double> segments(rows[0].segments().begin(),
                                               rows[0].segments().end());
  EXPECT_EQ(segments, (std::map<std::string, double>{{"lan.frames_sent", 7},
                                                     {"lan.frames_sent.diff", 3},
                                                     {"lan.frames_sent.position", 4},
                                                     {"lan.duty", 0.5},
                                                     {"wan.frames_sent", 0}}));
}

TEST_F(Reporting, HasTheMetricsOfProgramsAndPluginsInItsRows) {
  const auto registry = std::make_shared<MetricsRegistry>();
  registry->AddCounter({"csv_rows_total", "Rows."}, {{"kind", "good"}})->Add(3);
  registry->AddGauge({"csv_depth", "Depth."})->Set(0.5);
  registry->AddGauge({"csv_lag", "Lag."}, {{"segment", "lan"}})->Set(2);
  registry->AddGauge({"millrace_run_loss", "Loss."})->Set(1);
  reporter_->Watch(registry);
  Iterate(0, 1);
  const std::vector<MetricsRow> rows = Rows();
  ASSERT_EQ(rows.size(), 1u);
  const std::map<std::string, double> program(rows[0].program().begin(), rows[0].program().end());
  EXPECT_EQ(program, (std::map<std::string, double>{{"csv_rows.good", 3}, {"csv_depth", 0.5}}));
  EXPECT_EQ(rows[0].segments().size(), 1u);
  EXPECT_EQ(rows[0].segments().at("lan.csv_lag"), 2);
}

// Lines of an iteration wait for the solvers that are at earlier ones.
TEST_F(Reporting, WritesIterationsInTheirOrderWhateverTheSolversSpeeds) {
  const auto finish = [&](int solver, int64_t iteration) {
    reporter_->Iteration({iteration, 1, 0.25f}, *net_, false, solver);
  };
  const auto take = [&](int solver, int64_t iteration, bool has_lines) {
    reporter_->Taking(solver, iteration);
    reporter_->Took(solver, iteration, has_lines);
  };
  const auto written = [&] {
    std::vector<int64_t> iterations;
    for (const MetricsRow& row : Rows()) iterations.push_back(row.iter());
    return iterations;
  };
  using Iterations = std::vector<int64_t>;
  take(0, 0, true);
  take(1, 4, true);
  finish(1, 4);
  EXPECT_EQ(written(), Iterations());
  take(1, 8, true);
  finish(1, 8);
  reporter_->Test(0, 0, {});
  finish(0, 0);
  EXPECT_EQ(written(), (Iterations{0, 0, 4, 8}));
  take(0, 9, false);  // nobody waits for it
  take(1, 12, true);
  finish(1, 12);
  EXPECT_EQ(written(), (Iterations{0, 0, 4, 8, 12}));
  // A solver that takes an iteration may have drawn a lower number.
  reporter_->Taking(0, 13);
  take(1, 16, true);
  finish(1, 16);
  EXPECT_EQ(written().back(), 12);
  reporter_->TakesNoMore(0);
  EXPECT_EQ(written().back(), 16);
  take(0, 20, true);
  take(1, 24, true);
  finish(1, 24);
  EXPECT_EQ(written().back(), 16);
  reporter_->Finish();  // solver 0 has failed
  EXPECT_EQ(written().back(), 24);
}

// A test of the first iteration lasts while another solver makes very many.
TEST_F(Reporting, WritesIterationsInTheirOrderHoweverManyComeMeanwhile) {
  for (const int64_t count : {20'000, 60'000}) {
    LogWatch log;
    reporter_->Taking(0, 0);
    reporter_->Took(0, 0, true);
    for (int64_t i = 1; i <= count; ++i) {
      reporter_->Iteration({i, 1, 0.25f}, *net_, false, 1);
    }
    EXPECT_EQ(log.Count("Iteration "), 0);
    reporter_->Test(0, 0, {});
    reporter_->Iteration({0, 1, 0.25f}, *net_, false, 0);
    int64_t last = -1, displayed = 0;
    for (const std::string& line : log.With(", lr = ")) {
      const int64_t iteration = std::stoll(line.substr(std::strlen("Iteration ")));
      EXPECT_LT(last, iteration);
      last = iteration;
      ++displayed;
    }
    // Every fourth iteration and the first one, or as many as are kept.
    const bool all = count == 20'000;
    EXPECT_EQ(displayed, all ? 5'001 : 10'001);
    EXPECT_EQ(log.Count("5000 displayed iterations are left out"), all ? 0 : 1);
  }
}

TEST_F(Reporting, TellsTheResultsOfEachTestNet) {
  for (int net : {0, 1}) {
    Evaluation evaluation;
    evaluation.outputs.push_back({"accuracy", 0.5 + 0.25 * net, 0});
    reporter_->Test(50, net, evaluation);
  }
  const std::vector<MetricsRow> rows = Rows();
  ASSERT_EQ(rows.size(), 2u);
  for (int net : {0, 1}) {
    EXPECT_EQ(rows[net].iter(), 50);
    EXPECT_EQ(rows[net].test().net(), net);
    EXPECT_EQ(rows[net].test().outputs().at("accuracy"), 0.5 + 0.25 * net);
  }
}

}  // namespace
}  // namespace millrace::test
