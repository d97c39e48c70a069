// strategy { type: "allreduce" }: all solvers of a process step together.
#include <cmath>
#include <thread>

#include "test/train/allreduce_support.h"

namespace millrace::test {
namespace {

class Allreduce : public testing::TestWithParam<int> {};  // solvers

TEST_P(Allreduce, TakesTheStepsOfOneSolverWithTheBatchOfAll) {
  caffe::SolverParameter solver = Workspace::Solver(40);
  solver.set_clip_gradients(2);
  solver.set_iter_size(2);
  const auto whole = WorkWithBatch(4 * GetParam(), true), parts = WorkWithBatch(4, true);
  const Outcome one = RunNamed(*whole, "run", solver);
  const Outcome all = RunNamed(*parts, "run", Synchronous(solver), WithSolvers(GetParam()));
  ExpectNear(WeightsOf(*whole, "run", 40), WeightsOf(*parts, "run", 40), 2e-4f);
  const std::map<int64_t, double> expected = one.Losses(), losses = all.Losses();
  ASSERT_EQ(losses.size(), 40u);
  for (const auto& [iteration, loss] : losses) EXPECT_NEAR(loss, expected.at(iteration), 1e-3);
}

TEST_P(Allreduce, GivesTheSameWeightsInEveryRunAndForEverySizeOfBuckets) {
  const auto work = WorkWithBatch(4, true);
  for (const int kib : {1, 2, 4096}) {
    RunNamed(*work, StrCat("run", kib), Synchronous(Workspace::Solver(15), {{"bucket_kib", kib}}),
             WithSolvers(GetParam()));
    EXPECT_EQ(ModelFile(*work, StrCat("run", kib), 15), ModelFile(*work, "run1", 15)) << kib;
  }
}

TEST_P(Allreduce, ResumesExactly) {
  const auto work = WorkWithBatch(4);
  caffe::SolverParameter solver = Synchronous(Workspace::Solver(24));
  solver.set_snapshot(9);
  solver.set_iter_size(2);
  RunNamed(*work, "whole", solver, WithSolvers(GetParam()));
  EXPECT_EQ(StateOf(*work, "whole", 9).solver_history_size(), 0);
  TrainOptions options = WithSolvers(GetParam());
  options.snapshot = work->Snapshot("whole", 9) + ".solverstate";
  RunNamed(*work, "rest", solver, options);
  EXPECT_EQ(ModelFile(*work, "whole", 24), ModelFile(*work, "rest", 24));
  EXPECT_EQ(WeightsOf(*work, "whole", 18), WeightsOf(*work, "rest", 18));
}

TEST_P(Allreduce, TestsSavesAndDisplaysEachIterationOnce) {
  const auto work = WorkWithBatch(4);
  caffe::SolverParameter solver = Workspace::Tested(Synchronous(Workspace::Solver(120)), 60);
  solver.set_snapshot(50);
  const Outcome outcome = RunNamed(*work, "run", solver, WithSolvers(GetParam()));
  EXPECT_EQ(outcome.Tests(), (std::vector<int64_t>{0, 60, 120}));
  EXPECT_EQ(outcome.Losses().size(), 120u);
  EXPECT_EQ(outcome.result.iteration, 120);
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
  EXPECT_EQ(work->FilesWith("run_iter_").size(), 6u);
  for (const int iteration : {50, 100, 120}) {
    EXPECT_EQ(StateOf(*work, "run", iteration).iter(), iteration);
  }
}

TEST_P(Allreduce, AStopEndsAllSolversAfterTheSameIteration) {
  const auto work = WorkWithBatch(4);
  RequestedCommands commands;
  TrainOptions options = WithSolvers(GetParam());
  options.control = &commands;
  AtIteration observer(100, [&] { commands.Stop(); });
  options.observer = &observer;
  const Outcome outcome =
      RunNamed(*work, "run", Synchronous(Workspace::Solver(100'000'000)), options);
  EXPECT_TRUE(outcome.result.stopped_early);
  const int64_t iteration = outcome.result.iteration;
  EXPECT_EQ(outcome.Losses().rbegin()->first, iteration - 1);
  EXPECT_EQ(StateOf(*work, "run", iteration).iter(), iteration);
  // The same number of steps by a schedule gives the same weights.
  RunNamed(*work, "again", Synchronous(Workspace::Solver(static_cast<int>(iteration))),
           WithSolvers(GetParam()));
  EXPECT_EQ(ModelFile(*work, "run", iteration), ModelFile(*work, "again", iteration));
}

TEST_P(Allreduce, ALossThatIsNotFiniteEndsTheRunWithOneLineThatNamesTheSolver) {
  Workspace work;
  work.WriteNet(OverflowingText(work.Net()));
  const std::string error = ErrorOf(
      [&] { RunNamed(work, "run", Synchronous(Workspace::Solver(10)), WithSolvers(GetParam())); });
  EXPECT_EQ(error.find("solver "), 0u) << error;
  EXPECT_CONTAINS(error, ": iteration 0: the loss is not finite (");
  EXPECT_EQ(error.find("solver ", 1), std::string::npos) << error;
  EXPECT_TRUE(work.FilesWith("run_iter").empty());
}

INSTANTIATE_TEST_SUITE_P(Solvers, Allreduce, testing::Values(1, 2, 3, 6));

// The last of 41 labels is not a class of the net; image 40 has it.
TEST(AllreduceTest, TheErrorOfOneSolverEndsTheOthersAndNamesIt) {
  Images images;
  images.classes = 41;
  Workspace work(images);
  SmallNet net = work.Net();
  net.classes = 40;
  work.WriteNet(net);
  for (const int solvers : {1, 3, 4}) {
    const std::string error = ErrorOf(
        [&] { RunNamed(work, "run", Synchronous(Workspace::Solver(1000)), WithSolvers(solvers)); });
    // Batches of 8 go to the solvers in turn.
    EXPECT_EQ(error.find(StrCat("solver ", 5 % solvers, ": layer 'loss'")), 0u) << error;
    EXPECT_CONTAINS(error, "label 40");
  }
}

TEST(AllreduceTest, DividesTheBatchOfTheNetFile) {
  const auto whole = WorkWithBatch(12), part = WorkWithBatch(4);
  RunNamed(*whole, "run", Synchronous(Workspace::Solver(20), {{"divide_batch", 1}}),
           WithSolvers(3));
  RunNamed(*part, "run", Synchronous(Workspace::Solver(20)), WithSolvers(3));
  EXPECT_EQ(WeightsOf(*whole, "run", 20), WeightsOf(*part, "run", 20));
  const std::string error = ErrorOf([&] {
    RunNamed(*whole, "other", Synchronous(Workspace::Solver(20), {{"divide_batch", 1}}),
             WithSolvers(5));
  });
  EXPECT_CONTAINS(error, "net.prototxt:");
  EXPECT_CONTAINS(error, "data_param.batch_size: is 12");
  EXPECT_CONTAINS(error, "expected a multiple of 5");
}

TEST(AllreduceTest, SumsGradientsIfItIsToldTo) {
  const auto work = WorkWithBatch(4);
  caffe::SolverParameter solver = Workspace::Solver(20);
  solver.clear_weight_decay();
  RunNamed(*work, "mean", Synchronous(solver), WithSolvers(2));
  solver.set_base_lr(solver.base_lr() / 2);
  RunNamed(*work, "sum", Synchronous(solver, {{"average", 0}}), WithSolvers(2));
  ExpectNear(WeightsOf(*work, "mean", 20), WeightsOf(*work, "sum", 20), 1e-5f);
}

TEST(AllreduceTest, RefusesWhatItDoesNotHave) {
  Workspace work;
  const auto error_of = [&](const caffe::SolverParameter& solver, const TrainOptions& options) {
    return ErrorOf([&] { RunNamed(work, "run", solver, options); });
  };
  const caffe::SolverParameter plain = Workspace::Solver(5);
  EXPECT_CONTAINS(error_of(Synchronous(plain, {{"average", 2}}), WithSolvers(2)), "average");
  EXPECT_CONTAINS(error_of(Synchronous(plain, {{"buckets", 2}}), WithSolvers(2)), "buckets");
  caffe::SolverParameter conditions = Synchronous(plain);
  conditions.mutable_strategy()->add_sync_condition()->set_type("iterations");
  EXPECT_CONTAINS(error_of(conditions, WithSolvers(2)), "sync_condition");
  TrainOptions shm = WithSolvers(2);
  shm.shm = StrCat("millrace_allreduce_test_", getpid());
  EXPECT_CONTAINS(error_of(Synchronous(plain), shm), "--shm");
}

// ---- Merges of weights after the same iterations ----

// Momentum and decay are linear, so that it is the same to merge gradients or what they do.
TEST_P(Allreduce, MergesAfterEachIterationAreThoseOfGradients) {
  const auto work = WorkWithBatch(4, true);
  caffe::SolverParameter solver = Workspace::Solver(20);
  const auto weights = [&](const std::string& name, const caffe::SolverParameter& param) {
    RunNamed(*work, name, param, WithSolvers(GetParam()));
    return WeightsOf(*work, name, 20);
  };
  const std::vector<float> mean = weights("mean", Synchronous(solver));
  ExpectNear(mean, weights("average", Merging(solver, "average", 1)), 2e-5f);
  const std::map<std::string, double> plain = {{"rate", 1}, {"momentum", 0}};
  ExpectNear(mean, weights("outer", Merging(solver, "outer", 1, plain)), 2e-5f);
  solver.clear_weight_decay();
  solver.set_base_lr(solver.base_lr() / static_cast<float>(GetParam()));
  ExpectNear(weights("sum", Synchronous(solver, {{"average", 0}})),
             weights("additive", Merging(solver, "additive", 1)), 2e-5f);
}

TEST_P(Allreduce, ASolverTrainsOnItsOwnWeightsBetweenMerges) {
  const auto work = WorkWithBatch(4);
  const auto weights = [&](const std::string& name, int every, int solvers) {
    RunNamed(*work, name, Merging(Workspace::Solver(22), "average", every), WithSolvers(solvers));
    return WeightsOf(*work, name, 22);
  };
  // The last merge is at the end, whatever the period.
  const std::vector<float> merged = weights("merged", 7, GetParam());
  EXPECT_EQ(weights("again", 7, GetParam()), merged);
  RunNamed(*work, "alone", Workspace::Solver(22));
  if (GetParam() == 1) return ExpectNear(WeightsOf(*work, "alone", 22), merged, 1e-5f);
  EXPECT_NE(weights("often", 1, GetParam()), merged);
}

TEST_P(Allreduce, LearnsWithEachMergeRule) {
  const auto work = WorkWithBatch(4);
  const double most = 1.0 / GetParam();
  for (const auto& [rule, params] :
       std::vector<std::pair<std::string, std::map<std::string, double>>>{
           {"additive", {}}, {"average", {}}, {"easgd", {{"pull", 0.9 * most}}}, {"outer", {}}}) {
    caffe::SolverParameter solver =
        Workspace::Tested(Merging(Workspace::Solver(120), rule, 5, params), 60);
    // The sum of all steps.
    if (rule == "additive") solver.set_base_lr(solver.base_lr() / static_cast<float>(GetParam()));
    solver.set_snapshot(50);
    const Outcome outcome = RunNamed(*work, rule, solver, WithSolvers(GetParam()));
    EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9) << rule;
    EXPECT_EQ(outcome.Tests(), (std::vector<int64_t>{0, 60, 120})) << rule;
    EXPECT_EQ(outcome.Losses().size(), 120u) << rule;
  }
}

TEST_P(Allreduce, StopsAndSnapshotsWaitForAMerge) {
  const auto work = WorkWithBatch(4);
  RequestedCommands commands;
  TrainOptions options = WithSolvers(GetParam());
  options.control = &commands;
  SnapshotThenStop observer(work.get(), "run", &commands);
  options.observer = &observer;
  const Outcome outcome =
      RunNamed(*work, "run", Merging(Workspace::Solver(100'000'000), "average", 7), options);
  EXPECT_TRUE(outcome.result.stopped_early);
  EXPECT_EQ(outcome.result.iteration % 7, 0);
  int states = 0;
  for (const std::string& file : work->FilesWith("run_iter_")) {
    const std::string number = file.substr(file.find("run_iter_") + 9);
    EXPECT_EQ(std::stoll(number) % 7, 0) << file;
    states += file.ends_with(".solverstate");
  }
  EXPECT_EQ(states, 2);
}

TEST(AllreduceTest, SaysWhyItDoesNotMerge) {
  const auto work = WorkWithBatch(4);
  const auto error_of = [&](const caffe::SolverParameter& solver) {
    return ErrorOf([&] { RunNamed(*work, "run", solver, WithSolvers(3)); });
  };
  const caffe::SolverParameter plain = Workspace::Solver(20);
  EXPECT_CONTAINS(error_of(Synchronous(plain, {{"every", 4}})),
                  "strategy.merge_rule: is missing, expected one");
  EXPECT_CONTAINS(error_of(Merging(plain, "averages", 4)),
                  "strategy.merge_rule.type: unknown merge rule of the strategy allreduce "
                  "'averages', expected one of additive, average, easgd, outer");
  EXPECT_CONTAINS(error_of(Merging(plain, "easgd", 4)), "needs the parameter pull");
  EXPECT_CONTAINS(error_of(Merging(plain, "easgd", 4, {{"pull", 0.4}})),
                  "strategy.merge_rule.param: pull is 0.4, expected at most 1 / number of solvers");
  caffe::SolverParameter saved = Merging(plain, "average", 4);
  saved.set_snapshot(6);
  EXPECT_CONTAINS(error_of(saved), "snapshot: is 6, expected a multiple of the 4 iterations");
  caffe::SolverParameter sums = Merging(plain, "average", 4);
  (*sums.mutable_strategy()->mutable_param())["average"] = 0;
  EXPECT_CONTAINS(error_of(sums), "average is for gradients");
}

// ---- Batch normalisation over the batches of all solvers ----

TEST(AllreduceTest, SynchronizedBatchNormTakesTheBatchesOfAllSolversAsOne) {
  for (const int solvers : {1, 2, 3}) {
    Workspace whole, parts;
    WriteNormalized(whole, 4 * solvers, "");
    WriteNormalized(parts, 4, "synchronized: true");
    RunNamed(whole, "run", Workspace::Solver(25));
    RunNamed(parts, "run", Synchronous(Workspace::Solver(25)), WithSolvers(solvers));
    // Including the statistics.
    ExpectNear(WeightsOf(whole, "run", 25), WeightsOf(parts, "run", 25), 5e-4f);
  }
}

TEST(AllreduceTest, BatchNormOfEachSolverAloneIsNotThatOfAll) {
  Workspace whole, parts;
  WriteNormalized(whole, 12, "");
  WriteNormalized(parts, 4, "");
  RunNamed(whole, "run", Workspace::Solver(25));
  RunNamed(parts, "run", Synchronous(Workspace::Solver(25)), WithSolvers(3));
  const std::vector<float> expected = WeightsOf(whole, "run", 25);
  const std::vector<float> weights = WeightsOf(parts, "run", 25);
  float largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i] - weights[i]));
  }
  EXPECT_GT(largest, 0.05f);
}

TEST(AllreduceTest, AnotherStrategyRefusesSynchronizedBatchNormOfSeveralSolvers) {
  Workspace work;
  WriteNormalized(work, 8, "synchronized: true");
  RunNamed(work, "one", Workspace::Solver(2));
  const std::string error =
      ErrorOf([&] { RunNamed(work, "two", Workspace::Solver(2), WithSolvers(2)); });
  EXPECT_CONTAINS(error, "layer 'bn': batch_norm_param.synchronized: strategy hogwild has no");
  EXPECT_CONTAINS(error, "expected strategy allreduce");
}

}  // namespace
}  // namespace millrace::test
