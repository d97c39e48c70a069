#include "millrace/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/files/file.h"
#include "test/support/problem.h"
#include "test/support/support.h"
#include "test/train/train_support.h"
#include "train/run_monitor.h"

namespace millrace::test {
namespace {

using State = RunStatus::State;

class Runs : public testing::TestWithParam<const char*> {
 protected:
  using Run = millrace::Run;  // testing::Test has a function of that name

  // A run of `solver` with two solvers, whose strategy is the parameter.
  std::unique_ptr<Run> Start(caffe::SolverParameter solver, int solvers = 2) {
    solver.mutable_strategy()->set_type(GetParam());
    return Run::Start({.solver_file = work_.Write("run", solver), .cpus = solvers});
  }
  static caffe::SolverParameter Endless() {
    return Workspace::Tested(Workspace::Solver(100'000'000), 1'000'000);
  }
  // Waits until `holds` is true of the run's status, which is returned.
  static RunStatus Await(const Run& run, const std::function<bool(const RunStatus&)>& holds) {
    const SteadyClock clock;
    const double end = clock.NowSeconds() + 60;
    RunStatus status = run.status();
    while (!holds(status) && clock.NowSeconds() < end && status.state != State::kEnded) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      status = run.status();
    }
    EXPECT_TRUE(holds(status)) << NameOf(status.state) << " at " << status.iteration;
    return status;
  }
  static std::function<bool(const RunStatus&)> Past(int64_t iteration) {
    return [iteration](const RunStatus& status) { return status.iteration > iteration; };
  }

  Workspace work_;
};

INSTANTIATE_TEST_SUITE_P(Strategies, Runs, testing::Values("hogwild", "allreduce"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Runs, EndAsTrainDoes) {
  auto run = Start(Workspace::Tested(Workspace::Solver(200), 100));
  const RunResult result = run->Wait();
  EXPECT_EQ(result.iteration, 200);
  EXPECT_FALSE(result.stopped_early);
  EXPECT_EQ(result.state, work_.Snapshot("run", 200) + ".solverstate");
  ASSERT_EQ(result.tests.size(), 1u);
  EXPECT_FALSE(result.tests[0].outputs.empty());
  const RunStatus status = run->status();
  EXPECT_EQ(status.state, State::kEnded);
  EXPECT_EQ(status.iteration, 200);
  EXPECT_EQ(status.max_iteration, 200);
  EXPECT_EQ(status.snapshot_iteration, 200);
  EXPECT_EQ(status.snapshot, result.state);
  ASSERT_EQ(status.tests.size(), 1u);
  EXPECT_EQ(status.tests[0].iteration, 200);
  EXPECT_EQ(ErrorOf([&] { run->Pause(); }), "the run has ended");
  run->Stop();  // has nothing to stop
}

// While the run is paused, no iteration begins, but it tests, saves and can be resumed.
TEST_P(Runs, PauseTestAndSave) {
  auto run = Start(Endless());
  Await(*run, Past(10));
  run->Pause();
  EXPECT_EQ(run->status().state, State::kPaused);
  // A test and a snapshot of the same iteration, as soon as there is no other between them.
  const auto test_and_save = [&] {
    run->Test();
    run->Snapshot();
    return Await(*run,
                 [&](const RunStatus& status) {
                   const bool same = !status.tests.empty() && status.iteration > 0 &&
                                     status.tests[0].iteration == status.snapshot_iteration;
                   if (!same) run->Test(), run->Snapshot();
                   return same;
                 })
        .snapshot_iteration;
  };
  const int64_t there = test_and_save();
  int64_t later = there;
  for (int i = 0; i < 5; ++i) later = test_and_save();
  EXPECT_LE(later, there + 1);  // one solver may still have been in its iteration
  run->Resume();
  EXPECT_EQ(run->status().state, State::kTraining);
  Await(*run, Past(later + 10));
  run->Stop();
  const RunResult result = run->Wait();
  EXPECT_TRUE(result.stopped_early);
  EXPECT_GT(result.iteration, later);
}

TEST_P(Runs, StopDuringAPause) {
  auto run = Start(Endless());
  Await(*run, Past(0));
  run->Pause();
  run->Stop();
  EXPECT_TRUE(run->Wait().stopped_early);
  EXPECT_FALSE(run->Wait().state.empty());  // as often as one asks
}

TEST_P(Runs, TakeALearningRateUntilItIsTakenBack) {
  auto run = Start(Endless());
  const float of_file = Await(*run, Past(0)).learning_rate;
  run->SetLearningRate(of_file / 4);
  Await(*run, [&](const RunStatus& status) { return status.learning_rate == of_file / 4; });
  run->SetLearningRate(0);
  Await(*run, [&](const RunStatus& status) { return status.learning_rate == of_file; });
  for (const float bad : {-1.0f, NAN, INFINITY}) {
    EXPECT_CONTAINS(ErrorOf([&] { run->SetLearningRate(bad); }),
                    ": expected a finite number of at least 0");
  }
}  // whose end stops it

// Updates at a rate of 1e-30 do not change the weights.
TEST_P(Runs, LearnAtTheRateThatIsSet) {
  caffe::SolverParameter solver = Endless();
  solver.set_weight_decay(0);
  solver.set_momentum(0);
  auto run = Start(solver, 1);  // another could be in an iteration at the rate before
  Await(*run, Past(5));
  run->SetLearningRate(1e-30f);
  Await(*run, [](const RunStatus& status) { return status.learning_rate == 1e-30f; });
  run->Pause();
  std::vector<std::vector<float>> weights;
  for (int i = 0; i < 2; ++i) {
    const RunStatus before = run->status();
    run->Resume();
    Await(*run, Past(before.iteration + 20));
    run->Pause();
    run->Snapshot();
    const RunStatus status = Await(*run, [&](const RunStatus& now) {
      return now.snapshot_iteration > before.snapshot_iteration;
    });
    std::string model = status.snapshot;
    model.replace(model.rfind(".solverstate"), std::string::npos, ".caffemodel");
    weights.push_back(WeightsOf(LoadModel(model)));
  }
  ASSERT_GT(weights[0].size(), 100u);
  EXPECT_THAT(weights[1], testing::Pointwise(testing::FloatNear(1e-20f), weights[0]));
}

TEST(RunTest, GivesTheErrorOfABadFileAtEachWait) {
  Workspace work;
  WriteFile(work / "bad.prototxt", "net: 5\n");
  auto run = Run::Start({.solver_file = work / "bad.prototxt"});
  for (int i = 0; i < 2; ++i) EXPECT_CONTAINS(ErrorOf([&] { run->Wait(); }), "bad.prototxt:1:");
  EXPECT_EQ(run->status().state, State::kEnded);
  EXPECT_TRUE(run->WaitFor(0));
}

TEST(RequestedCommandsTest, AreInOrderExceptThatAStopIsFirst) {
  RequestedCommands commands;
  commands.Add(RunCommand::kPause);
  commands.Add({RunCommand::kSetLearningRate, 0.5f});
  commands.Add(RunCommand::kTest);
  commands.Stop();
  for (const RunCommand& expected : {RunCommand(RunCommand::kStop), RunCommand(RunCommand::kPause),
                                     RunCommand(RunCommand::kSetLearningRate, 0.5f),
                                     RunCommand(RunCommand::kTest), RunCommand()}) {
    EXPECT_EQ(commands.Next(0), expected);
  }
}

TEST(RequestedCommandsTest, ReplaceThoseThatWait) {
  RequestedCommands commands;
  commands.Add(RunCommand::kResume);
  commands.Add({RunCommand::kSetLearningRate, 0.5f});
  commands.Add(RunCommand::kPause);
  commands.Add({RunCommand::kSetLearningRate, 0.25f});
  commands.Add(RunCommand::kResume);
  EXPECT_EQ(commands.Next(0), RunCommand(RunCommand::kSetLearningRate, 0.25f));
  EXPECT_EQ(commands.Next(0), RunCommand::kResume);
  EXPECT_EQ(commands.Next(0), RunCommand::kNone);
}

// Two controls: the other's commands come through, and its stop shows in the status.
TEST(RunMonitorTest, PassesTheCommandsOfAnotherControl) {
  const SteadyClock clock;
  RequestedCommands signals;
  RunMonitor monitor(&clock, &signals);
  EXPECT_EQ(monitor.Next(0), RunCommand::kNone);
  monitor.Test();
  signals.Snapshot();
  EXPECT_EQ(monitor.Next(0), RunCommand::kSnapshot);
  EXPECT_EQ(monitor.Next(0), RunCommand::kTest);
  signals.Stop();
  EXPECT_EQ(monitor.Next(0), RunCommand::kStop);
  EXPECT_EQ(monitor.status().state, State::kStopping);
  EXPECT_EQ(ErrorOf([&] { monitor.Pause(); }), "the run is about to end");
  monitor.Stop();
}

}  // namespace
}  // namespace millrace::test
