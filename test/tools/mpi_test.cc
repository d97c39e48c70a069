// mpirun starts the processes of a synchronous run.
#include <signal.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

#include "collective/processes.h"
#include "millrace/session.h"
#include "solver/snapshot.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = WhyNoProcesses(); !reason.empty()) GTEST_SKIP() << reason;
    if (test::Run({"/bin/sh", "-c", "command -v mpirun"}).status != 0) {
      GTEST_SKIP() << "there is no mpirun: install openmpi-bin";
    }
  }

  static std::vector<std::string> Under(int ranks, std::vector<std::string> arguments) {
    // Open MPI does not free all memory of its plugins, and to report that takes a minute.
    std::vector<std::string> command = {"/usr/bin/env",
                                        "ASAN_OPTIONS=detect_leaks=0",
                                        "mpirun",
                                        "--allow-run-as-root",
                                        "--oversubscribe",
                                        "-n",
                                        std::to_string(ranks),
                                        Binary()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  CommandResult Train(int ranks, const std::string& solver, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"train", "--solver=" + solver});
    return test::Run(Under(ranks, more));
  }
  std::string Write(const std::string& name, caffe::SolverParameter solver, int batch,
                    const std::string& strategy = "allreduce") {
    SmallNet net = work_.Net();
    net.batch = batch;
    net.convolution = true;
    WriteFile(work_ / (name + "_net.prototxt"), net.Text());
    solver.set_net(work_ / (name + "_net.prototxt"));
    if (!strategy.empty()) solver.mutable_strategy()->set_type(strategy);
    return work_.Write(name, solver);
  }
  std::vector<float> Weights(const std::string& name, int iteration) const {
    std::vector<float> weights;
    const auto model = LoadModel(work_.Snapshot(name, iteration) + ".caffemodel");
    for (const caffe::LayerParameter& layer : model.layer()) {
      for (const caffe::BlobProto& blob : layer.blobs()) {
        weights.insert(weights.end(), blob.data().begin(), blob.data().end());
      }
    }
    return weights;
  }
  void ExpectNear(const std::vector<float>& expected, const std::vector<float>& weights) {
    ASSERT_EQ(expected.size(), weights.size());
    for (size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(expected[i], weights[i], 2e-4f) << i;
  }
  // The process of each rank, as its log names it.
  static std::map<int, int> ProcessesOf(const std::string& log) {
    std::map<int, int> processes;
    const auto ranks = Matches(log, R"(Rank (\d+) of \d+, process (\d+) on)", 1);
    const auto pids = Matches(log, R"(Rank (\d+) of \d+, process (\d+) on)", 2);
    for (size_t i = 0; i < ranks.size(); ++i) processes[std::stoi(ranks[i])] = std::stoi(pids[i]);
    return processes;
  }
  static caffe::SolverParameter Endless() {
    caffe::SolverParameter solver = Workspace::Solver(100'000'000);
    solver.set_display(10);
    return solver;
  }

  Workspace work_;
};

TEST_F(Mpi, RanksTakeTheStepsOfOneSolverWithTheBatchOfAll) {
  const caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(30), 15);
  const CommandResult one =
      test::Run(Command({"train", "--solver=" + Write("one", solver, 16, "")}));
  ASSERT_EQ(one.status, 0) << one.errors;
  const CommandResult four = Train(4, Write("four", solver, 4));
  ASSERT_EQ(four.status, 0) << four.errors;
  ExpectNear(Weights("one", 30), Weights("four", 30));
  const CommandResult both = Train(2, Write("both", solver, 4), {"--cpu=2"});
  ASSERT_EQ(both.status, 0) << both.errors;
  ExpectNear(Weights("one", 30), Weights("both", 30));
  // Rank 0 alone displays, tests and saves.
  EXPECT_EQ(Matches(four.errors, R"(rank (\d): Iteration 29 )"), std::vector<std::string>{"0"});
  EXPECT_EQ(Matches(four.errors, R"(rank (\d): Iteration 15, Testing net)"),
            std::vector<std::string>{"0"});
  EXPECT_EQ(Matches(four.output, R"(model saved: (\S+))").size(), 1u);
  EXPECT_EQ(work_.FilesWith("four_iter").size(), 2u);
  EXPECT_EQ(ProcessesOf(four.errors).size(), 4u) << four.errors;
  EXPECT_CONTAINS(four.errors, "rank 3: Rank 3 of 4");
}

TEST_F(Mpi, RanksMergeWeightsAsThreadsDo) {
  caffe::SolverParameter solver = Workspace::Solver(30);
  const auto train = [&](const std::string& name, const std::string& rule, int every) {
    caffe::SolverParameter param = solver;
    if (!rule.empty()) {
      (*param.mutable_strategy()->mutable_param())["every"] = every;
      param.mutable_strategy()->mutable_merge_rule()->set_type(rule);
    }
    const CommandResult run = Train(2, Write(name, param, 4), {"--cpu=2"});
    EXPECT_EQ(run.status, 0) << run.errors;
    return Weights(name, 30);
  };
  ExpectNear(train("gradients", "", 1), train("weights", "average", 1));
  const std::vector<float> seldom = train("seldom", "outer", 10);
  EXPECT_EQ(train("again", "outer", 10), seldom);
}

TEST_F(Mpi, RanksResumeFromASnapshot) {
  caffe::SolverParameter solver = Workspace::Solver(20);
  solver.set_snapshot(10);
  const std::string file = Write("run", solver, 4);
  ASSERT_EQ(Train(2, file).status, 0);
  const std::vector<float> whole = Weights("run", 20);
  const CommandResult rest =
      Train(2, file, {"--snapshot=" + work_.Snapshot("run", 10) + ".solverstate"});
  ASSERT_EQ(rest.status, 0) << rest.errors;
  EXPECT_EQ(Weights("run", 20), whole);
}

TEST_F(Mpi, RanksContinueWithTheStateOfTheirOwnSolvers) {
  for (const std::string rule : {"average", "easgd", "outer"}) {
    SCOPED_TRACE(rule);
    caffe::SolverParameter solver = Workspace::Solver(20);
    solver.set_snapshot(10);
    (*solver.mutable_strategy()->mutable_param())["every"] = 5;
    solver.mutable_strategy()->mutable_merge_rule()->set_type(rule);
    if (rule == "easgd") {
      (*solver.mutable_strategy()->mutable_merge_rule()->mutable_param())["pull"] = 0.2;
    }
    const std::string file = Write(rule, solver, 4);
    const auto run = [&](std::vector<std::string> more = {}) {
      more.push_back("--cpu=2");
      const CommandResult result = Train(2, file, more);
      EXPECT_EQ(result.status, 0) << result.errors;
      return result.errors;
    };
    run();
    const std::vector<float> whole = Weights(rule, 20);
    const std::string state = work_.Snapshot(rule, 10);
    EXPECT_TRUE(FileExists(state + ".rank1.solverstate"));
    EXPECT_TRUE(FileExists(work_.Snapshot(rule, 20) + ".rank1.solverstate"));
    EXPECT_EQ(work_.FilesWith(rule + "_iter").size(), 6u);
    run({"--snapshot=" + state + ".solverstate"});
    EXPECT_EQ(Weights(rule, 20), whole);
    // Without its part, rank 1 goes on with the histories of rank 0.
    std::filesystem::remove(state + ".rank1.solverstate");
    EXPECT_CONTAINS(run({"--snapshot=" + state + ".solverstate"}),
                    "rank 1: No part of rank1 is saved beside ");
    EXPECT_NE(Weights(rule, 20), whole);
  }
}

TEST_F(Mpi, SynchronizedBatchNormIsOverTheBatchesOfAllRanks) {
  const auto write = [&](const std::string& name, int batch, const std::string& param) {
    SmallNet net = work_.Net();
    net.batch = batch;
    std::string text = net.Text();
    text.insert(text.find("layer { name: 'relu'"),
                "layer { name: 'bn' type: 'BatchNorm' bottom: 'hidden' top: 'hidden'\n"
                "  batch_norm_param { moving_average_fraction: 0.9 " +
                    param + " } }\n");
    WriteFile(work_ / (name + "_net.prototxt"), text);
    caffe::SolverParameter solver = Workspace::Solver(4);
    solver.set_net(work_ / (name + "_net.prototxt"));
    if (!param.empty()) solver.mutable_strategy()->set_type("allreduce");
    return work_.Write(name, solver);
  };
  ASSERT_EQ(test::Run(Command({"train", "--solver=" + write("one", 12, "")})).status, 0);
  const CommandResult three = Train(3, write("three", 4, "synchronized: true"));
  ASSERT_EQ(three.status, 0) << three.errors;
  // Few steps: rounding grows with every step of a net that is normalised.
  const std::vector<float> expected = Weights("one", 4), weights = Weights("three", 4);
  ASSERT_EQ(expected.size(), weights.size());
  for (size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(expected[i], weights[i], 2e-5f) << i;
}

TEST_F(Mpi, AKilledRankEndsAllOthers) {
  Process process(Under(3, {"train", "--solver=" + Write("run", Endless(), 4)}));
  ASSERT_TRUE(WaitForLog(process, "Iteration 10 ")) << process.ErrorsSoFar();
  const std::map<int, int> ranks = ProcessesOf(process.ErrorsSoFar());
  ASSERT_EQ(ranks.size(), 3u);
  ASSERT_EQ(kill(ranks.at(1), SIGKILL), 0);
  EXPECT_NE(process.Wait().status, 0);
  for (const auto& [rank, pid] : ranks) {
    EXPECT_TRUE(Eventually([&] { return kill(pid, 0) != 0; })) << "rank " << rank;
  }
}

// Heartbeats come from a thread, so that only a process that is stopped or cut off is silent.
TEST_F(Mpi, AFrozenRankEndsAllWithALineThatNamesIt) {
  caffe::SolverParameter solver = Endless();
  (*solver.mutable_strategy()->mutable_param())["peer_timeout"] = 3;
  Process process(Under(3, {"train", "--solver=" + Write("run", solver, 4)}));
  ASSERT_TRUE(WaitForLog(process, "Iteration 10 ")) << process.ErrorsSoFar();
  const std::map<int, int> ranks = ProcessesOf(process.ErrorsSoFar());
  ASSERT_EQ(ranks.size(), 3u);
  ASSERT_EQ(kill(ranks.at(1), SIGSTOP), 0);
  const CommandResult result = process.Wait();
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_FALSE(
      Matches(result.errors, R"(millrace: rank [02]: .*no heartbeat from rank 1 for 3 s)").empty())
      << result.errors;
  for (const auto& [rank, pid] : ranks) {
    EXPECT_TRUE(Eventually([&] { return kill(pid, 0) != 0; })) << "rank " << rank;
  }
}

// ---- Sessions of a program that mpirun has started ----

constexpr char kSolver[] = "MILLRACE_TEST_SOLVER", kMode[] = "MILLRACE_TEST_MODE",
               kFolder[] = "MILLRACE_TEST_FOLDER";

// Not a test: the program that mpirun runs, which is this one with a filter. Writes the outcome to
// FOLDER/RANK, and ends when all ranks have: mpirun kills the others when one has failed.
TEST(SessionUnderMpi, DISABLED_Rank) {
  const auto launch = FindLaunch([](const char* name) { return getenv(name); });
  ASSERT_TRUE(launch);
  const std::string mode = getenv(kMode), folder = getenv(kFolder);
  std::string outcome = "no error";
  std::unique_ptr<Session> session;
  try {
    session = Session::Open(getenv(kSolver));
    while (const auto step = session->Step()) {
      // Longer than the peer timeout.
      if (mode == "pauses" && launch->rank == 0 && step->iteration == 2) sleep(9);
      if (mode == "leaves" && launch->rank == 1 && step->iteration == 2) session.reset();
      if (session == nullptr) break;
    }
    if (session && session->is_leader()) session->Snapshot();
    if (session) session->Finish();
  } catch (const std::exception& error) {
    outcome = error.what();
  }
  WriteFile(StrCat(folder, "/", launch->rank), outcome);
  for (int rank = 0; rank < launch->size; ++rank) {
    EXPECT_TRUE(Eventually([&] { return FileExists(StrCat(folder, "/", rank)); }));
  }
}

class MpiSession : public Mpi {
 protected:
  std::vector<std::string> RunRanks(int ranks, const std::string& mode, const std::string& solver) {
    const std::string folder = work_ / ("outcomes_" + mode);
    std::filesystem::create_directory(folder);
    std::vector<std::string> command = Under(ranks, {});
    command.back() = std::filesystem::read_symlink("/proc/self/exe");
    command.push_back("--gtest_filter=SessionUnderMpi.DISABLED_Rank");
    command.push_back("--gtest_also_run_disabled_tests");
    for (const auto& [name, value] : {std::pair(kSolver, solver), {kMode, mode}, {kFolder, folder}})
      command.insert(command.begin() + 1, StrCat(name, "=", value));
    const CommandResult result = test::Run(command);
    std::vector<std::string> outcomes;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string path = StrCat(folder, "/", rank);
      outcomes.push_back(FileExists(path) ? ReadFile(path) : "none: " + result.errors);
    }
    return outcomes;
  }
};

TEST_F(MpiSession, RanksTakeTheStepsOfOneSolverWithTheBatchOfAll) {
  const CommandResult one =
      test::Run(Command({"train", "--solver=" + Write("one", Workspace::Solver(12), 8, "")}));
  ASSERT_EQ(one.status, 0) << one.errors;
  caffe::SolverParameter solver = Workspace::Solver(12);
  (*solver.mutable_strategy()->mutable_param())["peer_timeout"] = 4;
  EXPECT_EQ(RunRanks(2, "pauses", Write("two", solver, 4)),
            (std::vector<std::string>{"no error", "no error"}));
  ExpectNear(Weights("one", 12), Weights("two", 12));
}

TEST_F(MpiSession, TheErrorOfOneRankReachesTheCallersOfAll) {
  Images images;
  images.classes = 41;
  images.WriteDatabase(work_ / "odd_lmdb");
  SmallNet net = work_.Net();
  net.train_sources = {work_ / "odd_lmdb"};
  net.classes = 40;  // image 40 has label 40, and is in the shard of rank 40 % 3
  net.batch = 4;
  work_.WriteNet(net);
  caffe::SolverParameter solver = Workspace::Solver(1000);
  solver.mutable_strategy()->set_type("allreduce");
  const auto outcomes = RunRanks(3, "fails", work_.Write("run", solver));
  EXPECT_CONTAINS(outcomes[1], "label 40");
  EXPECT_EQ(outcomes[0].find("rank 1 has failed: "), 0u) << outcomes[0];
  EXPECT_CONTAINS(outcomes[0], "label 40");
  EXPECT_EQ(outcomes[2].find("rank 1 has failed: "), 0u) << outcomes[2];
}

TEST_F(MpiSession, ARankThatEndsItsSessionEarlyIsAnErrorOfTheOthers) {
  const auto outcomes = RunRanks(2, "leaves", Write("run", Workspace::Solver(1000), 4));
  EXPECT_EQ(outcomes[1], "no error");
  EXPECT_EQ(outcomes[0], "rank 1 has failed: its session has ended without Finish");
}

TEST_F(Mpi, AStopOfOneRankStopsAllAndSaves) {
  Process process(Under(3, {"train", "--solver=" + Write("run", Endless(), 4)}));
  ASSERT_TRUE(WaitForLog(process, "Iteration 10 ")) << process.ErrorsSoFar();
  const std::map<int, int> ranks = ProcessesOf(process.ErrorsSoFar());
  ASSERT_EQ(ranks.size(), 3u);
  ASSERT_EQ(kill(ranks.at(2), SIGTERM), 0);
  const CommandResult result = process.Wait();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(Matches(result.errors, "(Optimization stopped early)").size(), 3u);
  EXPECT_EQ(Matches(result.output, R"(model saved: (\S+))").size(), 1u);
}

// Rank 0 alone tests, so it judges; the others stop with it.
TEST_F(Mpi, AStopConditionOfRankZeroEndsAllRanks) {
  for (const bool target : {true, false}) {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(100'000'000), 20);
    caffe::PartParameter& condition = *solver.add_stop_condition();
    condition.set_type(target ? "target" : "patience");
    (*condition.mutable_param())[target ? "value" : "tests"] = target ? 0.8 : 1;
    const std::string name = condition.type();
    const CommandResult result = Train(3, Write(name, solver, 4));
    ASSERT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(Matches(result.errors, "rank (\\d): Stop condition " + name),
              std::vector<std::string>{"0"});
    EXPECT_EQ(Matches(result.errors, "(Optimization stopped early)").size(), 3u);
    EXPECT_EQ(Matches(result.output, R"(model saved: (\S+))").size(), 1u);
    EXPECT_EQ(Matches(result.output, R"((accuracy) = )").size(), 1u);  // of the final weights
    EXPECT_EQ(work_.FilesWith(name + "_iter").size(), 2u);
  }
}

TEST_F(Mpi, TheErrorOfOneRankEndsAllWithItsLine) {
  Images images;
  images.classes = 41;
  images.WriteDatabase(work_ / "odd_lmdb");
  SmallNet net = work_.Net();
  net.train_sources = {work_ / "odd_lmdb"};
  net.classes = 40;  // image 40 has label 40
  net.batch = 4;
  work_.WriteNet(net);
  caffe::SolverParameter solver = Workspace::Solver(1000);
  solver.mutable_strategy()->set_type("allreduce");
  const CommandResult result = Train(3, work_.Write("run", solver));
  EXPECT_EQ(result.status, 1) << result.errors;
  // Record 40 is in the shard of rank 40 % 3.
  const auto lines = Matches(result.errors, "millrace: (rank .*)");
  ASSERT_EQ(lines.size(), 1u) << result.errors;
  EXPECT_CONTAINS(lines[0], "rank 1: solver 1: ");
  EXPECT_CONTAINS(lines[0], "label 40");
}

TEST_F(Mpi, ALossThatIsNotFiniteEndsAllWithStatus1) {
  work_.WriteNet(OverflowingText(work_.Net()));
  caffe::SolverParameter solver = Workspace::Solver(1000);
  solver.mutable_strategy()->set_type("allreduce");
  const CommandResult result = Train(2, work_.Write("run", solver));
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_CONTAINS(result.errors, "iteration 0: the loss is not finite (");
  EXPECT_TRUE(work_.FilesWith("run_iter").empty());
}

TEST_F(Mpi, RefusesRanksWithOtherSolverFiles) {
  const std::string a = Write("a", Workspace::Solver(10), 4),
                    b = Write("b", Workspace::Solver(20), 4);
  // Two applications in one call (`-n 1 A : -n 1 B`) end mpirun 5.0 with a segmentation fault.
  const std::string own = "case $OMPI_COMM_WORLD_RANK in 0) solver='" + a + "';; *) solver='" + b +
                          "';; esac; exec '" + Binary() + "' train --solver=\"$solver\"";
  const CommandResult result = test::Run({"/usr/bin/env", "mpirun", "--allow-run-as-root",
                                          "--oversubscribe", "-n", "2", "sh", "-c", own});
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_CONTAINS(result.errors, "millrace: rank 1: this process on ");
  EXPECT_CONTAINS(result.errors, "has another solver file");
}

TEST_F(Mpi, RefusesProcessesThatTheStrategyDoesNotCombine) {
  const CommandResult result = Train(2, Write("run", Workspace::Solver(10), 4, "hogwild"));
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_CONTAINS(result.errors,
                  "mpirun has started 2 processes, but strategy hogwild does not combine them");
}

}  // namespace
}  // namespace millrace::test
