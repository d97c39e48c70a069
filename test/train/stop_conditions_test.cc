// What ends a run before max_iter.
#include "solver/stop_conditions.h"

#include <cmath>
#include <optional>
#include <thread>

#include "proto/parse.h"
#include "solver/solver_config.h"
#include "test/support/fake_clock.h"
#include "test/support/free_port.h"
#include "test/support/log_watch.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

caffe::SolverParameter With(caffe::SolverParameter solver, const std::string& conditions) {
  if (conditions.empty()) return solver;
  caffe::SolverParameter more;
  ParseText(conditions, "conditions", &more, nullptr);
  solver.MergeFrom(more);
  return solver;
}

struct Conditions {
  explicit Conditions(const std::string& text, int tests = 1) {
    caffe::SolverParameter param;
    for (int i = 0; i < tests; ++i) param.add_test_iter(1);
    all.emplace(With(param, text), &clock);
    all->Start();
  }
  bool Test(double value, int64_t iteration = 0) {
    return all->AfterTest(iteration, 0, {value, 7});
  }

  FakeClock clock;
  std::optional<StopConditions> all;
};

TEST(StopConditions, NoneNeverEndsARun) {
  Conditions none("");
  EXPECT_TRUE(none.all->empty());
  EXPECT_FALSE(none.all->AfterIteration(1'000'000));
  EXPECT_FALSE(none.Test(1));
  EXPECT_EQ(none.all->reason(), "");
}

TEST(StopConditions, IterationsCountsThoseOfAllSolvers) {
  Conditions limit("stop_condition { type: 'iterations' param { key: 'most' value: 5 } }");
  EXPECT_FALSE(limit.all->AfterIteration(4));
  EXPECT_TRUE(limit.all->AfterIteration(5));
  EXPECT_EQ(limit.all->reason(), "iterations at iteration 5: 5 iterations are complete");
  EXPECT_TRUE(limit.all->AfterIteration(6));  // for the other solvers
  EXPECT_EQ(limit.all->reason(), "iterations at iteration 5: 5 iterations are complete");
}

TEST(StopConditions, SecondsCountFromTheStartOfTraining) {
  Conditions limit("stop_condition { type: 'seconds' param { key: 'most' value: 2.5 } }");
  limit.clock.AdvanceSeconds(10);
  limit.all->Start();
  limit.clock.AdvanceSeconds(2);
  EXPECT_FALSE(limit.all->AfterIteration(1));
  limit.clock.AdvanceSeconds(1);
  EXPECT_TRUE(limit.all->AfterIteration(2));
  EXPECT_EQ(limit.all->reason(), "seconds at iteration 2: 2.5 s of training have passed");
}

TEST(StopConditions, TargetIsReachedFromTheGivenDirection) {
  Conditions up("stop_condition { type: 'target' param { key: 'value' value: 0.9 } }");
  EXPECT_FALSE(up.Test(0.89));
  EXPECT_FALSE(up.Test(NAN));
  EXPECT_FALSE(up.all->AfterTest(0, 1, {0.95}));  // of another test net
  EXPECT_TRUE(up.Test(0.9, 40));
  EXPECT_EQ(up.all->reason(),
            "target at iteration 40: output 0 of test net 0 is 0.9, the target is 0.9");
  Conditions down(
      "stop_condition { type: 'target' param { key: 'value' value: 0.1 } "
      "param { key: 'direction' value: -1 } }");
  EXPECT_FALSE(down.Test(0.2));
  EXPECT_TRUE(down.Test(0.05));
  Conditions second(
      "stop_condition { type: 'target' param { key: 'value' value: 7 } "
      "param { key: 'output' value: 1 } }");
  EXPECT_TRUE(second.Test(0));
}

TEST(StopConditions, PatienceEndsAfterSoManyTestsWithoutABetterOne) {
  Conditions patience("stop_condition { type: 'patience' param { key: 'tests' value: 3 } }");
  for (const double value : {0.5, 0.4, 0.5, 0.6, 0.6, double{NAN}})
    EXPECT_FALSE(patience.Test(value));
  EXPECT_TRUE(patience.Test(0.1, 70));
  EXPECT_EQ(patience.all->reason(),
            "patience at iteration 70: output 0 of test net 0 has not been better than 0.6 in 3 "
            "tests");
  Conditions down(
      "stop_condition { type: 'patience' param { key: 'tests' value: 1 } "
      "param { key: 'direction' value: -1 } }");
  EXPECT_FALSE(down.Test(0.5));
  EXPECT_FALSE(down.Test(0.4));
  EXPECT_TRUE(down.Test(0.4));
}

TEST(StopConditions, SeeEachTestOnce) {
  Conditions patience("stop_condition { type: 'patience' param { key: 'tests' value: 2 } }");
  EXPECT_EQ(patience.all->tested(), -1);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(patience.all->AfterTest(10, {{0.5}}));
  EXPECT_EQ(patience.all->tested(), 10);
  EXPECT_FALSE(patience.all->AfterTest(20, {{0.5}}));
  EXPECT_TRUE(patience.all->AfterTest(30, {{0.5}}));
  EXPECT_TRUE(patience.all->AfterTest(30, {{0.5}}));
}

TEST(StopConditions, OfSeveralTheFirstThatIsMetEndsTheRun) {
  Conditions both(
      "stop_condition { type: 'iterations' param { key: 'most' value: 5 } } "
      "stop_condition { type: 'target' param { key: 'value' value: 0.9 } }");
  EXPECT_FALSE(both.all->AfterIteration(4));
  EXPECT_TRUE(both.Test(1));
  EXPECT_EQ(both.all->reason().rfind("target at", 0), 0u);
}

TEST(StopConditions, AnOutputThatDoesNotExistIsAnError) {
  Conditions none(
      "stop_condition { type: 'target' param { key: 'value' value: 1 } "
      "param { key: 'output' value: 2 } }");
  EXPECT_EQ(ErrorOf([&] { none.Test(1); }),
            "the stop condition target judges output 2 of test net 0, which has 2 outputs");
}

TEST(StopConditions, AreCheckedWithTheSolverFile) {
  const auto refusal = [](const std::string& conditions, bool tested = true) {
    Workspace work;
    caffe::SolverParameter solver = Workspace::Solver(5);
    if (tested) solver = Workspace::Tested(solver, 5);
    const std::string path = work.Write("run", With(solver, conditions));
    const std::string error = ErrorOf([&] { LoadSolverConfig(path); });
    EXPECT_EQ(error.rfind(path + ":", 0), 0u) << error;
    return error.substr(error.find(": ") + 2);
  };
  EXPECT_EQ(refusal("stop_condition { type: 'x' }"),
            "stop_condition[0].type: unknown stop condition 'x', expected one of iterations, "
            "patience, seconds, target");
  EXPECT_EQ(refusal("stop_condition { }"),
            "stop_condition[0].type: is missing, expected one of iterations, patience, seconds, "
            "target");
  EXPECT_EQ(refusal("stop_condition { type: 'target' }"),
            "stop_condition[0].param: stop condition target needs the parameter value, expected a "
            "finite number");
  EXPECT_EQ(refusal("stop_condition { type: 'patience' param { key: 'tests' value: 2 } "
                    "param { key: 'direction' value: 0 } }"),
            "stop_condition[0]: direction is 0, expected 1 (more is better) or -1");
  EXPECT_EQ(refusal("stop_condition { type: 'target' param { key: 'value' value: 1 } "
                    "param { key: 'net' value: 1 } }"),
            "stop_condition[0].param: net is 1, expected one of the 1 test nets, from 0");
  EXPECT_EQ(refusal("stop_condition { type: 'target' param { key: 'value' value: 1 } }", false),
            "stop_condition[0].type: the stop condition target judges tests, expected a test net "
            "(see test_iter)");
}

// ---- Runs ----

TEST(StopConditionRun, EndsAsAStopDoesWithSnapshotAndTest) {
  for (const int solvers : {1, 3}) {
    Workspace work;
    const Outcome outcome =
        RunNamed(work, "run",
                 With(Workspace::Tested(Workspace::Solver(1'000'000), 20),
                      "stop_condition { type: 'iterations' param { key: 'most' value: 30 } }"),
                 WithSolvers(solvers));
    EXPECT_TRUE(outcome.result.stopped_early);
    EXPECT_GE(outcome.result.iteration, 30);
    EXPECT_LT(outcome.result.iteration, 30 + solvers);
    EXPECT_EQ(outcome.result.state,
              work.Snapshot("run", outcome.result.iteration) + ".solverstate");
    // The stop interrupts a test that another solver has in progress.
    ASSERT_FALSE(outcome.Tests().empty());
    EXPECT_EQ(outcome.Tests().back(), outcome.result.iteration);
    EXPECT_EQ(outcome.result.tests.size(), 1u);
  }
}

TEST(StopConditionRun, LogsInOneLineWhichConditionHasEndedIt) {
  Workspace work;
  const LogWatch log;
  RunNamed(work, "run",
           With(Workspace::Solver(100'000),
                "stop_condition { type: 'seconds' param { key: 'most' value: 1e6 } } "
                "stop_condition { type: 'iterations' param { key: 'most' value: 3 } }"));
  EXPECT_EQ(log.With("Stop condition"),
            (std::vector<std::string>{
                "Stop condition iterations at iteration 3: 3 iterations are complete"}));
}

TEST(StopConditionRun, ThatIsMetByATestEndsAfterTheIterationOfTheTest) {
  Workspace work;
  const Outcome outcome =
      RunNamed(work, "run",
               With(Workspace::Tested(Workspace::Solver(100'000), 10),
                    "stop_condition { type: 'target' param { key: 'value' value: 0.9 } }"));
  EXPECT_TRUE(outcome.result.stopped_early);
  EXPECT_EQ(outcome.result.iteration % 10, 1);
  EXPECT_LT(outcome.result.iteration, 2000);
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.8);
}

TEST(StopConditionRun, OfWhichTheLastIterationIsTheSchedulesEndIsComplete) {
  Workspace work;
  const Outcome outcome =
      RunNamed(work, "run",
               With(Workspace::Tested(Workspace::Solver(20), 10),
                    "stop_condition { type: 'iterations' param { key: 'most' value: 20 } }"));
  EXPECT_FALSE(outcome.result.stopped_early);
  EXPECT_EQ(outcome.Tests(), (std::vector<int64_t>{0, 10, 20}));
}

// The leader's condition ends the run for both nodes, with one snapshot and the same test.
TEST(StopConditionRun, InAClusterEndsItForAllNodes) {
  for (const char* const condition :
       {"stop_condition { type: 'iterations' param { key: 'most' value: 100 } }",
        "stop_condition { type: 'target' param { key: 'value' value: 0.9 } }"}) {
    SCOPED_TRACE(condition);
    Workspace work;
    const std::string topology = work / "topology.prototxt";
    WriteFile(topology, StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
                               " node { name: 'b' address: '127.0.0.2' }",
                               " segment { name: 's' transport: 'udp' port: ", FreePort(), " }"));
    std::vector<Outcome> outcomes(2);
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        TrainOptions options;
        options.topology = topology;
        options.node = i == 0 ? "a" : "b";
        outcomes[i] = RunNamed(
            work, options.node,
            With(Workspace::Tested(Workspace::Solver(10'000'000), 50), condition), options);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const int64_t iteration = outcomes[0].result.iteration;
    EXPECT_EQ(outcomes[1].result.iteration, iteration);
    EXPECT_GE(iteration, 50);
    EXPECT_LT(iteration, 10'000'000);
    std::string models;
    for (const Outcome& outcome : outcomes) {
      EXPECT_TRUE(outcome.result.stopped_early);
      models += outcome.result.model;
      ASSERT_EQ(outcome.result.tests.size(), 1u);
      EXPECT_EQ(outcome.FinalOutput("accuracy"), outcomes[0].FinalOutput("accuracy"));
    }
    EXPECT_EQ(std::min(outcomes[0].result.model.size(), outcomes[1].result.model.size()), 0u);
    EXPECT_EQ(LoadModel(models).layer_size() > 0, true);
  }
}

TEST(StopConditionRun, ContinuesFromItsSnapshotExactly) {
  Workspace work;
  RunNamed(work, "whole", Workspace::Solver(20));
  const Outcome first =
      RunNamed(work, "part",
               With(Workspace::Solver(20),
                    "stop_condition { type: 'iterations' param { key: 'most' value: 9 } }"));
  TrainOptions options;
  options.snapshot = first.result.state;
  RunNamed(work, "part", Workspace::Solver(20), options);
  EXPECT_EQ(ModelFile(work, "part", 20), ModelFile(work, "whole", 20));
}

}  // namespace
}  // namespace millrace::test
