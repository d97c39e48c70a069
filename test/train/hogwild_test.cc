// Several solvers that share one weight array together follow the schedule.
#include <cmath>
#include <set>

#include "test/train/train_support.h"

namespace millrace::test {
namespace {

class Hogwild : public testing::TestWithParam<int> {};

// The mean loss of iterations 80 to 119; the loss of one batch of 8 images says little.
double MeanOfLastLosses(const Outcome& outcome) {
  double mean = 0;
  for (const auto& [iteration, loss] : outcome.Losses()) mean += iteration >= 80 ? loss / 40 : 0;
  return mean;
}
const double kLearned = 0.5 * std::log(4.0);  // half the loss of a uniform guess

TEST_P(Hogwild, DoesEveryIterationExactlyOnceAndLearns) {
  Workspace work;
  const Outcome outcome =
      RunNamed(work, "run", Workspace::Tested(Workspace::Solver(120), 60), WithSolvers(GetParam()));
  const std::map<int64_t, double> losses = outcome.Losses();
  EXPECT_EQ(losses.size(), 120u);
  EXPECT_EQ(losses.begin()->first, 0);
  EXPECT_EQ(losses.rbegin()->first, 119);
  EXPECT_EQ(outcome.result.iteration, 120);
  EXPECT_FALSE(outcome.result.stopped_early);
  EXPECT_EQ(StateOf(work, "run", 120).iter(), 120);
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
  EXPECT_LT(MeanOfLastLosses(outcome), kLearned);
}

TEST_P(Hogwild, TestsSnapshotsAndDisplaysFollowTheGlobalIteration) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(50), 20);
  solver.set_display(7);
  solver.set_snapshot(15);
  const Outcome outcome = RunNamed(work, "run", solver, WithSolvers(GetParam()));
  const std::vector<int64_t> tests = outcome.Tests();
  EXPECT_EQ(std::multiset<int64_t>(tests.begin(), tests.end()),
            (std::multiset<int64_t>{0, 20, 40}));
  std::set<int64_t> displayed;
  for (const auto& [iteration, loss] : outcome.Losses()) displayed.insert(iteration);
  EXPECT_EQ(displayed, (std::set<int64_t>{0, 7, 14, 21, 28, 35, 42, 49}));
  for (int64_t iteration : {15, 30, 45, 50}) {
    EXPECT_EQ(StateOf(work, "run", iteration).iter(), iteration);
    EXPECT_EQ(StateOf(work, "run", iteration).solver_history_size(), GetParam() - 1);
    EXPECT_FALSE(WeightsOf(work, "run", iteration).empty());
  }
  EXPECT_EQ(work.FilesWith("run_iter_").size(), 8u);  // no other files
}

TEST_P(Hogwild, TheLearningRateFollowsTheGlobalIteration) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(30);
  solver.set_lr_policy("step");
  solver.set_gamma(0.5f);
  solver.set_stepsize(10);
  const Outcome outcome = RunNamed(work, "run", solver, WithSolvers(GetParam()));
  for (const MetricsRow& row : outcome.rows) {
    if (!row.has_train()) continue;
    const float expected = row.iter() < 10 ? 0.05f : row.iter() < 20 ? 0.025f : 0.0125f;
    EXPECT_FLOAT_EQ(static_cast<float>(row.train().learning_rate()), expected) << row.iter();
  }
  EXPECT_EQ(StateOf(work, "run", 30).current_step(), 2);  // of the last iteration
}

TEST_P(Hogwild, EachBatchIsTrainedOnOnce) {
  // An epoch has 8 batches: after 20 iterations the stream is at batch 20, with no batch
  // outstanding.
  Workspace work;
  RunNamed(work, "run", Workspace::Solver(20), WithSolvers(GetParam()));
  const caffe::SolverState state = StateOf(work, "run", 20);
  ASSERT_EQ(state.stream_size(), 1);
  uint64_t trained = state.stream(0).next_batch() - state.stream(0).outstanding_size();
  EXPECT_EQ(trained, 20u);
}

TEST_P(Hogwild, LearnsByEveryRule) {
  Workspace work;
  for (const caffe::SolverParameter& solver : Workspace::AdaptiveSolvers(120)) {
    SCOPED_TRACE(solver.type());
    const Outcome outcome =
        RunNamed(work, solver.type(), Workspace::Tested(solver, 120), WithSolvers(GetParam()));
    EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
    EXPECT_LT(MeanOfLastLosses(outcome), kLearned);
  }
}

INSTANTIATE_TEST_SUITE_P(Solvers, Hogwild, testing::Values(1, 2, 4));

TEST_P(Hogwild, ReportsIterationsAndTestsInTheirOrder) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(60), 12);
  solver.set_display(1);
  solver.set_test_iter(0, 40);
  int64_t last = 0;
  for (const MetricsRow& row : RunNamed(work, "run", solver, WithSolvers(GetParam())).rows) {
    EXPECT_GE(row.iter(), last);
    last = row.iter();
  }
  EXPECT_EQ(last, 60);
}

// The only weight is 1 at first and grows in every iteration. A long test of iteration 0 scores 1
// while other solvers train.
TEST(TestOfTheFirstIteration, ScoresTheWeightsOfThatIterationWithAnyNumberOfSolvers) {
  Workspace work;
  work.WriteNet(
      "layer { name: 'x' type: 'DummyData' top: 'x' top: 't' include { phase: TRAIN }\n"
      "  dummy_data_param { shape { dim: 4 dim: 1 } shape { dim: 4 dim: 1 }\n"
      "    data_filler { value: 1 } data_filler { value: 9 } } }\n"
      "layer { name: 'x' type: 'DummyData' top: 'x' include { phase: TEST }\n"
      "  dummy_data_param { shape { dim: 1 dim: 1 } data_filler { value: 1 } } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'weight'\n"
      "  inner_product_param { num_output: 1 bias_term: false weight_filler { value: 1 } } }\n"
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'weight' bottom: 't' top: 'loss'\n"
      "  include { phase: TRAIN } }\n");
  for (const int solvers : {1, 2, 4}) {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(2000), 100'000);
    solver.set_test_iter(0, 50'000);
    solver.set_base_lr(0.001f);
    const std::string name = StrCat("run", solvers);
    const Outcome outcome = RunNamed(work, name, solver, WithSolvers(solvers));
    ASSERT_EQ(outcome.Tests(), std::vector<int64_t>{0});
    for (const MetricsRow& row : outcome.rows) {
      if (!row.has_test()) continue;
      EXPECT_EQ(row.test().outputs().at("weight"), 1) << solvers;
    }
    EXPECT_GT(WeightsOf(work, name, 2000)[0], 1);
  }
}

TEST(HogwildEnd, MoreSolversThanIterationsIsFine) {
  Workspace work;
  const Outcome outcome = RunNamed(work, "run", Workspace::Solver(2), WithSolvers(4));
  EXPECT_EQ(outcome.Losses().size(), 2u);
  EXPECT_EQ(StateOf(work, "run", 2).solver_history_size(), 3);
}

TEST(HogwildEnd, NoIterationsMeansStartWeights) {
  Workspace work;
  const Outcome outcome = RunNamed(work, "run", Workspace::Solver(0), WithSolvers(2));
  EXPECT_EQ(outcome.result.iteration, 0);
  EXPECT_FALSE(WeightsOf(work, "run", 0).empty());
}

TEST(HogwildEnd, AFinalSnapshotIsWrittenUnlessItIsUnwanted) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(3);
  const Outcome with = RunNamed(work, "with", solver);
  EXPECT_EQ(with.result.model, work.Snapshot("with", 3) + ".caffemodel");
  EXPECT_EQ(with.result.state, work.Snapshot("with", 3) + ".solverstate");
  solver.set_snapshot_after_train(false);
  const Outcome without = RunNamed(work, "without", solver);
  EXPECT_EQ(without.result.model, "");
  EXPECT_TRUE(work.FilesWith("without_iter").empty());
}

}  // namespace
}  // namespace millrace::test
