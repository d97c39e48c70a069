// SIGINT stops after a snapshot and SIGHUP takes one, as in Caffe; flags change this.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "solver/snapshot.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class Signals : public testing::TestWithParam<int> {  // solvers
 protected:
  // A run longer than any test.
  static caffe::SolverParameter Endless() {
    caffe::SolverParameter solver = Workspace::Solver(100'000'000);
    solver.set_display(100);
    return solver;
  }
  std::vector<std::string> Train(const std::string& name, const caffe::SolverParameter& solver,
                                 std::vector<std::string> more = {}) {
    more.insert(more.begin(),
                {"train", "--solver=" + work_.Write(name, solver), StrCat("--cpu=", GetParam())});
    return Command(more);
  }
  std::string SnapshotLine(const std::string& name) const {
    return "Snapshotting solver state to binary proto file " + (work_ / name) + "_iter_";
  }
  // Iteration of the only snapshot, whose files follow its line in the log.
  int64_t SavedIteration() const {
    std::vector<std::string> files;
    EXPECT_TRUE(Eventually([&] {
      files = work_.FilesWith("run_iter");
      return files.size() == 2 && files[1].ends_with(".solverstate");  // not a temporary file
    }));
    return LoadResumePoint(work_ / files.back()).iteration();
  }
  static bool WaitForIterationAfter(const Process& process, int64_t iteration) {
    return WaitForLog(process, StrCat("Iteration ", (iteration / 100 + 2) * 100, " "));
  }

  Workspace work_;
};

TEST_P(Signals, SigintStopsAfterASnapshot) {
  Process process(Train("run", Endless()));
  ASSERT_TRUE(WaitForLog(process, "Iteration 100 "));
  process.Signal(SIGINT);
  const CommandResult result = process.Wait();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "Optimization stopped early.");
  const auto models = Matches(result.output, R"(model saved: (\S+)\.caffemodel)");
  ASSERT_EQ(models.size(), 1u) << result.output;
  const ResumePoint point = LoadResumePoint(models[0] + ".solverstate");
  EXPECT_GT(point.iteration(), 100);
  EXPECT_EQ(point.solvers(), GetParam());
  EXPECT_EQ(work_.FilesWith("run_iter").size(), 2u);
}

TEST_P(Signals, SigtermStopsToo) {
  Process process(Train("run", Endless()));
  ASSERT_TRUE(WaitForLog(process, "Iteration 100 "));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait().status, 0);
  EXPECT_EQ(work_.FilesWith("run_iter").size(), 2u);
}

TEST_P(Signals, SighupSnapshotsAndGoesOn) {
  Process process(Train("run", Endless()));
  ASSERT_TRUE(WaitForLog(process, "Iteration 100 "));
  process.Signal(SIGHUP);
  ASSERT_TRUE(WaitForLog(process, SnapshotLine("run")));
  const int64_t saved = SavedIteration();
  EXPECT_TRUE(WaitForIterationAfter(process, saved));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait().status, 0);
}

TEST_P(Signals, FlagsChangeWhatTheyDo) {
  Process process(Train("run", Endless(), {"--sigint_effect=snapshot", "--sighup_effect=none"}));
  ASSERT_TRUE(WaitForLog(process, "Iteration 100 "));
  process.Signal(SIGHUP);
  process.Signal(SIGINT);
  ASSERT_TRUE(WaitForLog(process, SnapshotLine("run")));
  ASSERT_TRUE(WaitForIterationAfter(process, SavedIteration()));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait().status, 0);
  // One snapshot by SIGINT and one at the end, none by SIGHUP.
  EXPECT_EQ(work_.FilesWith("run_iter").size(), 4u);
}

TEST_P(Signals, SighupMayStop) {
  Process process(Train("run", Endless(), {"-sighup_effect=stop"}));
  ASSERT_TRUE(WaitForLog(process, "Iteration 100 "));
  process.Signal(SIGHUP);
  const CommandResult result = process.Wait();
  EXPECT_EQ(result.status, 0);
  EXPECT_CONTAINS(result.errors, "Optimization stopped early.");
}

TEST_P(Signals, ASignalDuringALongTestStopsToo) {
  caffe::SolverParameter solver = Workspace::Tested(Endless(), 50);
  solver.set_test_iter(0, 100'000'000);
  solver.set_test_initialization(false);
  Process process(Train("run", solver));
  ASSERT_TRUE(WaitForLog(process, GetParam() == 1 ? "Testing net" : "Evaluating net"));
  process.Signal(SIGINT);
  const CommandResult result = process.Wait();
  EXPECT_EQ(result.status, 0);
  EXPECT_CONTAINS(result.errors, "] Test interrupted.\n");
  EXPECT_EQ(work_.FilesWith("run_iter").size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Solvers, Signals, testing::Values(1, 2));

// `millrace train 2>&1 | tee log` at a terminal: Ctrl-C ends tee as well.
TEST(SignalsWithoutAReader, SigintStopsAfterASnapshot) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(100'000'000);
  solver.set_display(100);
  const std::vector<std::string> command =
      Command({"train", "--solver=" + work.Write("run", solver)});
  std::vector<const char*> arguments;
  for (const std::string& argument : command) arguments.push_back(argument.c_str());
  arguments.push_back(nullptr);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t trainer = fork();
  if (trainer == 0) {
    signal(SIGPIPE, SIG_DFL);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execv(arguments[0], const_cast<char* const*>(arguments.data()));
    _exit(127);
  }
  close(ends[1]);
  std::string log;
  char piece[4096];
  while (log.find("Iteration 100 ") == std::string::npos) {
    const ssize_t bytes = read(ends[0], piece, sizeof(piece));
    ASSERT_GT(bytes, 0) << log;
    log.append(piece, static_cast<size_t>(bytes));
  }
  close(ends[0]);  // the trainer writes more lines, without a reader
  kill(trainer, SIGINT);
  int status = -1;
  ASSERT_EQ(waitpid(trainer, &status, 0), trainer);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(work.FilesWith("run_iter").size(), 2u);
}

TEST(SigintResume, ARunStoppedBySigintEndsAsIfItHadNotBeen) {
  Workspace work;
  SmallNet net = work.Net();
  net.convolution = net.dropout = true;
  net.data_fields = "shuffle: true";
  net.transform_fields = "crop_size: 7 mirror: true";
  work.WriteNet(net);
  caffe::SolverParameter solver = Workspace::Solver(100'000'000);
  solver.set_display(50);
  solver.set_iter_size(2);
  Process process(Command({"train", "--solver=" + work.Write("stopped", solver)}));
  ASSERT_TRUE(WaitForLog(process, "Iteration 50 "));
  process.Signal(SIGINT);
  const CommandResult stopped = process.Wait();
  ASSERT_EQ(stopped.status, 0) << stopped.errors;
  const auto saved = Matches(stopped.output, R"(model saved: (\S+)\.caffemodel)");
  ASSERT_EQ(saved.size(), 1u);
  const int64_t iteration = LoadResumePoint(saved[0] + ".solverstate").iteration();

  solver.set_max_iter(static_cast<int>(iteration) + 21);
  const CommandResult rest = Millrace({"train", "--solver=" + work.Write("rest", solver),
                                       "--snapshot=" + saved[0] + ".solverstate"});
  ASSERT_EQ(rest.status, 0) << rest.errors;
  const CommandResult whole = Millrace({"train", "--solver=" + work.Write("whole", solver)});
  ASSERT_EQ(whole.status, 0) << whole.errors;
  EXPECT_EQ(ReadFile(work.Snapshot("rest", iteration + 21) + ".caffemodel"),
            ReadFile(work.Snapshot("whole", iteration + 21) + ".caffemodel"));
}

}  // namespace
}  // namespace millrace::test
