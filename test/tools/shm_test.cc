// Several processes train the weights of one run.
#include <signal.h>

#include <algorithm>

#include "metrics/metrics_writer.h"
#include "solver/snapshot.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class Shm : public testing::Test {
 protected:
  static caffe::SolverParameter Endless() {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(100'000'000), 100'000'000);
    solver.set_display(100);
    solver.set_test_initialization(false);
    return solver;
  }
  std::vector<std::string> Train(const std::string& name, const caffe::SolverParameter& solver,
                                 std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"train", "--solver=" + work_.Write(name, solver), shm_.flag(),
                               "--metrics=" + work_ / (name + ".jsonl")});
    return Command(more);
  }
  // Iterations displayed by the run `name`.
  std::vector<int64_t> Displayed(const std::string& name) const {
    std::vector<int64_t> iterations;
    for (const MetricsRow& row : ReadMetrics(work_ / (name + ".jsonl"))) {
      if (row.has_train()) iterations.push_back(row.iter());
    }
    return iterations;
  }

  Workspace work_;
  ShmName shm_;
};

TEST_F(Shm, TwoProcessesDoTheScheduleTogetherEachIterationOnce) {
  // Process a is stopped until b has joined.
  constexpr int64_t kIterations = 20000;
  const caffe::SolverParameter solver = Workspace::Solver(kIterations);
  Process a(Train("a", solver));
  ASSERT_TRUE(WaitForLog(a, ", loss = "));
  a.Signal(SIGSTOP);
  Process b(Train("b", solver));
  ASSERT_TRUE(WaitForLog(b, "Joined the run at " + shm_.path()));
  a.Signal(SIGCONT);
  const CommandResult first = a.Wait(), second = b.Wait();
  ASSERT_EQ(first.status, 0) << first.errors;
  ASSERT_EQ(second.status, 0) << second.errors;
  std::vector<int64_t> all = Displayed("a");
  const std::vector<int64_t> others = Displayed("b");
  EXPECT_FALSE(others.empty());
  all.insert(all.end(), others.begin(), others.end());
  std::sort(all.begin(), all.end());
  ASSERT_EQ(static_cast<int64_t>(all.size()), kIterations);
  for (int64_t i = 0; i < kIterations; ++i) ASSERT_EQ(all[i], i);
  EXPECT_FALSE(FileExists(shm_.path()));
  // Only the last process wrote the final snapshot.
  EXPECT_EQ(work_.FilesWith("a_iter").size() + work_.FilesWith("b_iter").size(), 2u);
}

TEST_F(Shm, RefusesAProcessWithAnotherStrategy) {
  Process run(Train("run", Endless()));
  ASSERT_TRUE(WaitForLog(run, ", loss = "));
  caffe::SolverParameter solver = Endless();
  solver.mutable_strategy()->set_type("local");
  caffe::PartParameter& condition = *solver.mutable_strategy()->add_sync_condition();
  condition.set_type("steps");
  (*condition.mutable_param())["every"] = 10;
  ExpectOneLine(test::Run(Train("other", solver)),
                {shm_.path() + ": the solvers of that run have the strategy hogwild, those of this "
                               "process local { sync_condition { type: \"steps\" "});
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().status, 0);
}

TEST_F(Shm, TestScoresTheLiveWeights) {
  Process run(Train("run", Endless()));
  ASSERT_TRUE(WaitForLog(run, "Iteration 500 "));
  const std::vector<std::string> test = {"test", "--model=" + work_ / "net.prototxt", shm_.flag(),
                                         "--iterations=2"};
  const CommandResult result = Millrace(test);
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_GE(std::stod(Matches(result.output, R"(accuracy = (\S+))").at(0)), 0.9);
  EXPECT_GE(std::stoll(Matches(result.errors, R"(Evaluating \S+ at iteration (\d+))").at(0)), 500);
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().status, 0);
  ExpectOneLine(Millrace(test), {shm_.path(), "no such file"});
}

TEST_F(Shm, AKilledProcessLeavesTheOtherToTheEnd) {
  caffe::SolverParameter solver = Endless();
  Process killed(Train("killed", solver));
  ASSERT_TRUE(WaitForLog(killed, "Iteration 100 "));
  Process survivor(Train("survivor", solver));
  ASSERT_TRUE(WaitForLog(survivor, "Joined the run at " + shm_.path()));
  ASSERT_TRUE(WaitForLog(survivor, ", loss = "));
  killed.Signal(SIGKILL);
  EXPECT_EQ(killed.Wait().status, 128 + SIGKILL);
  // The survivor continues alone.
  const auto displayed = [&] { return Displayed("survivor"); };
  const size_t before = displayed().size();
  EXPECT_TRUE(Eventually([&] { return displayed().size() > before + 5; }));
  EXPECT_TRUE(FileExists(shm_.path()));
  survivor.Signal(SIGINT);
  const CommandResult result = survivor.Wait();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_FALSE(FileExists(shm_.path()));
  EXPECT_EQ(work_.FilesWith("survivor_iter").size(), 2u);
  EXPECT_TRUE(work_.FilesWith("killed_iter").empty());
}

TEST_F(Shm, TheSurvivorOfAKilledProcessReachesTheEndOfTheSchedule) {
  // The process is stopped before it is killed, so that its progress is known.
  Process killed(Train("killed", Endless()));
  ASSERT_TRUE(WaitForLog(killed, "Iteration 100 "));
  killed.Signal(SIGSTOP);
  const int64_t end = Displayed("killed").back() + 2000;
  Process survivor(Train("survivor", Workspace::Solver(static_cast<int>(end))));
  ASSERT_TRUE(WaitForLog(survivor, "Joined the run at " + shm_.path()));
  killed.Signal(SIGKILL);
  killed.Wait();
  const CommandResult result = survivor.Wait();
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "Optimization Done.");
  EXPECT_EQ(LoadResumePoint(work_.Snapshot("survivor", end) + ".solverstate").iteration(), end);
  EXPECT_FALSE(FileExists(shm_.path()));
}

TEST_F(Shm, ASnapshotOfAStoppedSharedRunResumes) {
  Process run(Train("run", Endless(), {"--cpu=2"}));
  ASSERT_TRUE(WaitForLog(run, "Iteration 100 "));
  run.Signal(SIGINT);
  const CommandResult stopped = run.Wait();
  const auto saved = Matches(stopped.output, R"(model saved: (\S+)\.caffemodel)");
  ASSERT_EQ(saved.size(), 1u) << stopped.errors;
  const int64_t iteration = LoadResumePoint(saved[0] + ".solverstate").iteration();
  caffe::SolverParameter solver = Workspace::Solver(static_cast<int>(iteration) + 10);
  const CommandResult rest =
      test::Run(Train("rest", solver, {"--snapshot=" + saved[0] + ".solverstate"}));
  ASSERT_EQ(rest.status, 0) << rest.errors;
  EXPECT_EQ(Displayed("rest").front(), iteration);
  EXPECT_EQ(Displayed("rest").size(), 10u);
}

// ---- Refusals ----

TEST_F(Shm, WeightsOfAnotherNetAreRefusedAndTheRunGoesOn) {
  Process run(Train("run", Endless()));
  ASSERT_TRUE(WaitForLog(run, "Iteration 100 "));
  SmallNet other = work_.Net();
  other.classes = 5;
  WriteFile(work_ / "other_net.prototxt", other.Text());
  caffe::SolverParameter solver = Workspace::Solver(10);
  solver.set_net(work_ / "other_net.prototxt");
  ExpectOneLine(test::Run(Train("other", solver)), {shm_.path(), "weights of another net"});
  ExpectOneLine(Millrace({"test", "--model=" + work_ / "other_net.prototxt", shm_.flag()}),
                {shm_.path(), "weights of another net"});
  EXPECT_TRUE(FileExists(shm_.path()));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().status, 0);
}

TEST_F(Shm, AJoiningProcessBringsNoWeights) {
  Process run(Train("run", Endless()));
  ASSERT_TRUE(WaitForLog(run, "Iteration 100 "));
  const CommandResult saved =
      Millrace({"train", "--solver=" + work_.Write("saved", Workspace::Solver(1))});
  ASSERT_EQ(saved.status, 0) << saved.errors;
  const std::string prefix = work_.Snapshot("saved", 1);
  for (const std::string& flag :
       {"--weights=" + prefix + ".caffemodel", "--snapshot=" + prefix + ".solverstate"}) {
    ExpectOneLine(test::Run(Train("joins", Workspace::Solver(10), {flag})),
                  {shm_.flag(), "--weights and --snapshot do not apply"});
  }
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().status, 0);
}

TEST_F(Shm, WeightsThatADeadRunLeftAreRefusedWithTheCommandThatRemovesThem) {
  Process run(Train("run", Endless()));
  ASSERT_TRUE(WaitForLog(run, "Iteration 100 "));
  const int pid = run.pid();
  run.Signal(SIGKILL);
  run.Wait();
  ASSERT_TRUE(FileExists(shm_.path()));
  const std::vector<std::string> parts = {shm_.path(), StrCat("last pid ", pid),
                                          "rm " + shm_.path()};
  ExpectOneLine(test::Run(Train("next", Workspace::Solver(10))), parts);
  ExpectOneLine(Millrace({"test", "--model=" + work_ / "net.prototxt", shm_.flag()}), parts);
  EXPECT_TRUE(FileExists(shm_.path()));
}

TEST_F(Shm, AFileThatIsNoWeightBufferIsRefusedAndLeftAlone) {
  for (const std::string& content :
       {std::string(), std::string("garbage"), std::string(200000, 'x')}) {
    WriteFile(shm_.path(), content);
    ExpectOneLine(test::Run(Train("run", Workspace::Solver(10))),
                  {shm_.path(), "not a Millrace weight buffer"});
    EXPECT_EQ(ReadFile(shm_.path()), content);
  }
}

TEST_F(Shm, NamesThatAreNoFileNamesAreRefused) {
  for (const char* name : {"../x", "a/b", ".hidden"}) {
    ExpectOneLine(Millrace({"train", "--solver=" + work_.Write("run", Workspace::Solver(1)),
                            StrCat("--shm=", name)}),
                  {name, "/dev/shm"});
  }
}

TEST_F(Shm, ARunThatFailsTakesItsFileAway) {
  caffe::SolverParameter solver = Workspace::Solver(100);
  solver.set_base_lr(1e25f);
  ExpectOneLine(test::Run(Train("run", solver)), {"not finite"});
  EXPECT_FALSE(FileExists(shm_.path()));
}

}  // namespace
}  // namespace millrace::test
