#include "millrace/session.h"

#include <glog/logging.h>

#include <array>
#include <barrier>
#include <cmath>
#include <mutex>
#include <thread>

#include "base/registration.h"
#include "millrace/cluster.h"
#include "millrace/metrics.h"
#include "millrace/version.h"
#include "nn/net.h"
#include "proto/parse.h"
#include "test/support/eventually.h"
#include "test/support/log_watch.h"
#include "test/train/train_support.h"
#include "test/train/two_nodes.h"

namespace millrace::test {
namespace {

TEST(Version, IsThatOfTheHeaders) {
  EXPECT_EQ(Version(), StrCat(MILLRACE_VERSION_MAJOR, ".", MILLRACE_VERSION_MINOR, ".",
                              MILLRACE_VERSION_PATCH));
}

TEST(Session, TrainsAsTheProgramDoes) {
  Workspace work;
  const Outcome whole = RunNamed(work, "whole", Workspace::Solver(7));
  const auto session = Session::Open(work.Write("own", Workspace::Solver(7)));
  EXPECT_EQ(session->iteration(), 0);
  int64_t steps = 0;
  while (const std::optional<SessionStep> step = session->Step()) {
    EXPECT_EQ(step->iteration, steps++);
  }
  EXPECT_EQ(steps, 7);
  EXPECT_EQ(session->iteration(), 7);
  EXPECT_EQ(session->Snapshot(), work.Snapshot("own", 7) + ".solverstate");
  EXPECT_EQ(ModelFile(work, "own", 7), ModelFile(work, "whole", 7));
  EXPECT_TRUE(session->is_leader());
  session->Finish();
  session->Leave();
}

TEST(Session, EndsWithAStopCondition) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(1000), 100);
  caffe::PartParameter& limit = *solver.add_stop_condition();
  limit.set_type("iterations");
  (*limit.mutable_param())["most"] = 5;
  const auto limited = Session::Open(work.Write("limited", solver));
  int steps = 0;
  while (limited->Step()) ++steps;
  EXPECT_EQ(steps, 5);
  limit.set_type("target");
  limit.clear_param();
  (*limit.mutable_param())["value"] = 0;  // of every test
  const auto tested = Session::Open(work.Write("tested", solver));
  EXPECT_TRUE(tested->Step());
  tested->Test();
  EXPECT_FALSE(tested->Step());
}

caffe::SolverParameter LocalSolver(int iterations, int every, const std::string& rule) {
  const std::string pull = rule == "easgd" ? " param { key: 'pull' value: 0.3 }" : "";
  return Local(Workspace::Solver(iterations),
               StrCat(Steps(every), "merge_rule { type: '", rule, "'", pull, " }"));
}

caffe::SolverParameter SynchronousSolver(int iterations, int every, const std::string& rule) {
  caffe::SolverParameter solver = Workspace::Solver(iterations);
  solver.mutable_strategy()->set_type("allreduce");
  if (rule.empty()) return solver;
  (*solver.mutable_strategy()->mutable_param())["every"] = every;
  solver.mutable_strategy()->mutable_merge_rule()->set_type(rule);
  return solver;
}

TEST(Session, TrainsWithEachStrategyAsTheProgramDoes) {
  Workspace work;
  caffe::SolverParameter gossip = Workspace::Solver(7);
  gossip.mutable_strategy()->set_type("gossip");
  const caffe::SolverParameter solvers[] = {gossip,
                                            LocalSolver(7, 3, "additive"),
                                            LocalSolver(7, 3, "easgd"),
                                            SynchronousSolver(7, 1, ""),
                                            SynchronousSolver(7, 4, "average"),
                                            SynchronousSolver(7, 4, "outer")};
  for (const caffe::SolverParameter& solver : solvers) {
    SCOPED_TRACE(solver.strategy().ShortDebugString());
    RunNamed(work, "whole", solver);
    const auto session = Session::Open(work.Write("own", solver));
    int64_t steps = 0;
    while (session->Step()) ++steps;
    EXPECT_EQ(steps, 7);
    EXPECT_EQ(session->iteration(), 7);
    session->Snapshot();
    EXPECT_EQ(ModelFile(work, "own", 7), ModelFile(work, "whole", 7));
    session->Finish();
  }
}

TEST(Session, SolversThatStepTogetherTrainAsThoseOfTheProgramDo) {
  Workspace work;
  for (const caffe::SolverParameter& solver :
       {SynchronousSolver(7, 1, ""), SynchronousSolver(7, 4, "average"),
        SynchronousSolver(7, 4, "outer")}) {
    SCOPED_TRACE(solver.strategy().ShortDebugString());
    RunNamed(work, "whole", solver, WithSolvers(3));
    SessionOptions options;
    options.solvers = 3;
    const auto session = Session::Open(work.Write("own", solver), options);
    int64_t steps = 0;
    while (const auto step = session->Step()) EXPECT_EQ(step->iteration, steps++);
    EXPECT_EQ(steps, 7);
    session->Snapshot();
    EXPECT_EQ(ModelFile(work, "own", 7), ModelFile(work, "whole", 7));
    session->Finish();
  }
}

TEST(Session, SeveralSolversShareTheScheduleAndAreAllSaved) {
  Workspace work;
  caffe::SolverParameter gossip = Workspace::Solver(201);
  gossip.mutable_strategy()->set_type("gossip");
  for (const caffe::SolverParameter& plain :
       {Workspace::Solver(201), gossip, LocalSolver(201, 2, "additive")}) {
    const caffe::SolverParameter solver = Workspace::Tested(plain, 1000);
    SCOPED_TRACE(solver.strategy().ShortDebugString());
    SessionOptions options;
    options.solvers = 2;
    auto session = Session::Open(work.Write("own", solver), options);
    int64_t last = 0;
    for (int i = 1; i <= 50; ++i) {
      const auto step = session->Step();
      ASSERT_TRUE(step);
      EXPECT_EQ(step->iteration, 2 * i - 1);
      EXPECT_EQ(session->iteration(), 2 * i);
    }
    options.snapshot = session->Snapshot();
    EXPECT_EQ(LoadResumePoint(options.snapshot).solvers(), 2);
    session = Session::Open(work.Write("own", solver), options);
    EXPECT_EQ(session->iteration(), 100);
    while (const auto step = session->Step()) last = step->iteration;
    EXPECT_EQ(last, 200);  // the schedule's last iteration is of one solver
    EXPECT_EQ(session->iteration(), 201);
    EXPECT_GE(session->Test()[0].mean, 0.9);
    session->Finish();
  }
}

// One solver alone sees the label. Others that step with it do not wait for it for ever.
TEST(Session, AnErrorOfOneSolverIsThatOfTheStep) {
  Images images;
  images.classes = 41;
  Workspace work(images);
  SmallNet net = work.Net();
  net.classes = 40;
  work.WriteNet(net);
  SessionOptions options;
  options.solvers = 3;
  for (const caffe::SolverParameter& solver :
       {Workspace::Solver(1000), SynchronousSolver(1000, 1, "")}) {
    const auto session = Session::Open(work.Write("run", solver), options);
    const std::string error = ErrorOf([&] {
      while (session->Step()) {
      }
    });
    EXPECT_CONTAINS(error, "label 40");
  }
}

TEST(Session, TestsAndSavesWhatItsSolverHasNotMerged) {
  Workspace work;
  const auto tested = [](const caffe::SolverParameter& solver) {
    return Workspace::Tested(solver, 1000);
  };
  const auto plain = Session::Open(work.Write("plain", tested(Workspace::Solver(20))));
  const auto local = Session::Open(work.Write("local", tested(LocalSolver(20, 1000, "additive"))));
  const std::vector<float> before(local->weights().begin(), local->weights().end());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(plain->Step());
    ASSERT_TRUE(local->Step());
  }
  // Its own weights, on which the net computes.
  EXPECT_TRUE(std::equal(plain->weights().begin(), plain->weights().end(), local->weights().begin(),
                         local->weights().end()));
  EXPECT_FALSE(std::equal(before.begin(), before.end(), local->weights().begin()));
  EXPECT_EQ(local->net().weights().data(), local->weights().data());
  const std::vector<TestOutput> expected = plain->Test(), found = local->Test();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].mean, expected[i].mean);
  // A change that the program makes is progress like a step's.
  local->weights()[0] += 1;
  plain->weights()[0] += 1;
  plain->Snapshot();
  local->Snapshot();
  EXPECT_EQ(ModelFile(work, "local", 5), ModelFile(work, "plain", 5));
}

TEST(Session, SavesOnlyWhatSynchronousSolversHaveMerged) {
  Workspace work;
  const auto session = Session::Open(work.Write("run", SynchronousSolver(20, 4, "average")));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(session->Step());
  session->Snapshot();
  ASSERT_TRUE(session->Step());
  EXPECT_CONTAINS(ErrorOf([&] { session->Snapshot(); }),
                  "the solvers have not merged at iteration 5, expected a call after");
}

TEST(Session, RefusesAStrategyThatItsClusterDoesNotHave) {
  Workspace work;
  SessionOptions options;
  options.topology = TwoNodes(work / "");
  options.node = "a";
  const std::string path = work.Write("run", SynchronousSolver(20, 1, ""));
  const std::string error = ErrorOf([&] { Session::Open(path, options); });
  EXPECT_EQ(error.rfind(path + ":", 0), 0u) << error;
  EXPECT_CONTAINS(error, "strategy.type: is allreduce");
}

TEST(Session, ContinuesFromASnapshotExactly) {
  Workspace work;
  RunNamed(work, "whole", Workspace::Solver(9));
  const auto first = Session::Open(work.Write("part", Workspace::Solver(9)));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(first->Step());
  SessionOptions options;
  options.snapshot = first->Snapshot();
  const auto second = Session::Open(work.Write("part", Workspace::Solver(9)), options);
  EXPECT_EQ(second->iteration(), 4);
  while (second->Step()) {
  }
  second->Snapshot();
  EXPECT_EQ(ModelFile(work, "part", 9), ModelFile(work, "whole", 9));
}

TEST(Session, ContinuesTheStateOfItsMergeRule) {
  for (const char* strategy :
       {"type: 'local' sync_condition { type: 'steps' param { key: 'every' value: 3 } }"
        " merge_rule { type: 'easgd' param { key: 'pull' value: 0.3 } }",
        "type: 'allreduce' param { key: 'every' value: 2 } merge_rule { type: 'outer' }"}) {
    Workspace work;
    caffe::SolverParameter solver = Workspace::Solver(9);
    ParseText(strategy, "strategy", solver.mutable_strategy(), nullptr);
    const auto first = Session::Open(work.Write("part", solver));
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(first->Step());
    SessionOptions options;
    options.snapshot = first->Snapshot();
    const auto second = Session::Open(work.Write("part", solver), options);
    while (first->Step()) {
    }
    while (second->Step()) {
    }
    EXPECT_TRUE(std::equal(first->weights().begin(), first->weights().end(),
                           second->weights().begin(), second->weights().end()))
        << strategy;
    first->Finish();
    second->Finish();
  }
}

TEST(Session, SharesItsWeightsWithTheProgram) {
  Workspace work;
  const auto session =
      Session::Open(work.Write("run", Workspace::Tested(Workspace::Solver(3), 100)));
  const std::vector<WeightArray> arrays = session->arrays();
  ASSERT_FALSE(arrays.empty());
  EXPECT_EQ(arrays[0].name.substr(arrays[0].name.size() - 2), "/0");
  for (const WeightArray& array : arrays) {
    EXPECT_LE(static_cast<size_t>(array.offset + array.count), session->weights().size());
    EXPECT_EQ(ShapeCount(array.shape), array.count);
  }
  const std::vector<TestOutput> before = session->Test();
  // With all weights zero, every class is as likely as the others.
  std::fill(session->weights().begin(), session->weights().end(), 0.0f);
  const std::vector<TestOutput> after = session->Test();
  ASSERT_EQ(after.size(), before.size());
  bool found = false;
  for (const TestOutput& output : after) {
    if (output.name != "loss") continue;
    found = true;
    EXPECT_NEAR(output.mean, std::log(4.0), 1e-5);
  }
  EXPECT_TRUE(found);
  EXPECT_THROW(session->Test(1), Error);
}

TEST(Session, SeveralInOneProcessDoNotDisturbEachOther) {
  Workspace work;
  RunNamed(work, "whole", Workspace::Solver(6));
  const auto one = Session::Open(work.Write("one", Workspace::Solver(6)));
  const auto two = Session::Open(work.Write("two", Workspace::Solver(6)));
  std::thread other([&] {
    while (two->Step()) {
    }
  });
  while (one->Step()) {
  }
  other.join();
  one->Snapshot();
  two->Snapshot();
  EXPECT_EQ(ModelFile(work, "one", 6), ModelFile(work, "whole", 6));
  EXPECT_EQ(ModelFile(work, "two", 6), ModelFile(work, "whole", 6));
}

TEST(Session, ReportsToARegistryOfTheProgram) {
  Workspace work;
  TempDir folder;
  MetricsRegistry registry(folder.path());
  registry.AddGauge({"own_number", "A number of the program."})->Set(3);
  SessionOptions options;
  options.metrics = &registry;
  for (int run = 0; run < 2; ++run) {  // one session after the other
    const auto session = Session::Open(work.Write("run", Workspace::Solver(5)), options);
    EXPECT_EQ(registry.Read().Value("run", "iterations_here"), 0);
    double loss = 0;
    while (const auto step = session->Step()) loss = step->loss;
    const std::vector<CounterFileReading> readings = ReadCounterFiles(folder.path());
    ASSERT_EQ(readings.size(), 1u);
    EXPECT_EQ(readings[0].title, "small");
    EXPECT_EQ(readings[0].Value("run", "iterations_here"), 5);
    EXPECT_EQ(readings[0].Value("run", "images_here"), 40);
    EXPECT_EQ(readings[0].Value("run", "loss"), loss);
    EXPECT_EQ(readings[0].Value("run", "own_number"), 3);
    // Two sessions at the same time need registries of their own.
    EXPECT_CONTAINS(
        ErrorOf([&] { (void)Session::Open(work.Write("run", Workspace::Solver(5)), options); }),
        "metric millrace_run_iteration: exists with these labels already");
  }
}

TEST(Session, SaysWhatIsWrongInOneLine) {
  Workspace work;
  SessionOptions options;
  options.weights = {"a.caffemodel"};
  options.snapshot = "b.solverstate";
  const std::string solver = work.Write("run", Workspace::Solver(3));
  EXPECT_CONTAINS(ErrorOf([&] { (void)Session::Open(solver, options); }), "give one of them");
  EXPECT_CONTAINS(ErrorOf([&] { (void)Session::OpenText("net: 3", "text.prototxt"); }),
                  "text.prototxt");
  options = {};
  options.node = "a";
  EXPECT_CONTAINS(ErrorOf([&] { (void)Session::Open(solver, options); }),
                  "expected --topology with it");
  options = {};
  options.shard_index = 2;
  options.shard_count = 2;
  EXPECT_CONTAINS(ErrorOf([&] { (void)Session::Open(solver, options); }),
                  "SessionOptions.shard_index: 2 of 2");
  options = {};
  options.solvers = 0;
  EXPECT_CONTAINS(ErrorOf([&] { (void)Session::Open(solver, options); }),
                  "SessionOptions.solvers: 0, expected 1 or more");
  options.solvers = 2;
  const std::vector<float> values(8);
  EXPECT_CONTAINS(
      ErrorOf([&] { Session::Open(solver, options)->SetMemoryData("data", values, values); }),
      "2 solvers, each with a train net");
}

// Two rules or transports of one name, for example, in files that the program is linked with.
TEST(Session, IsRefusedIfARegistrationWasWrong) {
  Workspace work;
  const std::string solver = work.Write("run", Workspace::Solver(7));
  alignas(64) std::array<float, 16> weights{};
  ReportBadRegistration("merge rule x: two of them have this name, expected one");
  const std::vector<std::string> errors = {
      ErrorOf([&] { Session::Open(solver); }),
      ErrorOf([&] { Session::OpenText(ReadFile(solver), "run.prototxt"); }),
      ErrorOf([&] { ClusterMember({.topology = "none", .node = "a"}, weights); })};
  for (const std::string& error : errors) {
    EXPECT_EQ(error, "merge rule x: two of them have this name, expected one");
  }
  EXPECT_EQ(TakeBadRegistrations().size(), 1u);
  Session::Open(solver);
}

TEST(Session, TrainsInAClusterWithOthers) {
  Workspace work;
  const std::string topology = TwoNodes(work / "");
  std::vector<std::unique_ptr<Session>> sessions(2);
  std::barrier both(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      SessionOptions options;
      options.topology = topology;
      options.node = i == 0 ? "a" : "b";
      sessions[i] = Session::Open(work.Write(StrCat("node", i), Workspace::Solver(400)), options);
      both.arrive_and_wait();
      while (sessions[i]->Step()) {
      }
      sessions[i]->Finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Both count the iterations of both, and end with the same weights. Nodes so fast begin more
  // iterations than the schedule has, before they learn of each other's.
  EXPECT_GE(sessions[0]->iteration(), 400);
  EXPECT_EQ(sessions[0]->iteration(), sessions[1]->iteration());
  const auto a = sessions[0]->weights(), b = sessions[1]->weights();
  EXPECT_EQ(std::vector<float>(a.begin(), a.end()), std::vector<float>(b.begin(), b.end()));
}

// Three nodes average their progress at up to three times the rate, while exchanges are fresh.
// Where each has three solvers, which add up, the rate stays that of the file.
TEST(Session, DividesTheScaleOfItsRateByItsSolvers) {
  for (const int solvers : {1, 3}) {
    Workspace work;
    const std::string topology = ThreeNodes(work / "");
    const caffe::SolverParameter solver = Workspace::Solver(100'000'000);
    std::atomic<bool> is_scaled = false;
    std::vector<std::thread> threads;
    for (int i = 1; i <= 3; ++i) {
      threads.emplace_back([&, i] {
        SessionOptions options;
        options.topology = topology;
        options.node = StrCat("n", i);
        options.solvers = solvers;
        const auto session = Session::Open(work.Write(StrCat("node", i), solver), options);
        for (int step = 0; step < (solvers == 1 ? 20'000 : 500) && !is_scaled; ++step) {
          if (session->Step()->learning_rate > solver.base_lr()) is_scaled = true;
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        session->Leave();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(is_scaled, solvers == 1);
  }
}

TEST(Session, BeginsInAClusterWithoutPositionAndMomentumOfOthers) {
  Workspace work;
  const auto alone = Session::Open(work.Write("alone", Workspace::Solver(9)));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(alone->Step());
  SessionOptions options;
  options.snapshot = alone->Snapshot();
  options.topology = TwoNodes(work / "");
  options.node = "a";
  const auto momentum = [](const caffe::SolverState& state) {
    double sum = 0;
    for (const caffe::BlobProto& blob : state.history()) {
      for (const float value : blob.data()) sum += std::abs(value);
    }
    return sum;
  };
  const caffe::SolverState of_other = LoadResumePoint(options.snapshot).state;
  ASSERT_GT(momentum(of_other), 0);
  ASSERT_GT(of_other.stream_size(), 0);
  {
    const auto session = Session::Open(work.Write("run", Workspace::Solver(9)), options);
    EXPECT_EQ(session->iteration(), 4);
    const caffe::SolverState begin = LoadResumePoint(session->Snapshot()).state;
    EXPECT_EQ(momentum(begin), 0);
    ASSERT_EQ(begin.stream_size(), of_other.stream_size());
    EXPECT_NE(begin.stream(0).SerializeAsString(), of_other.stream(0).SerializeAsString());
    ASSERT_TRUE(session->Step());
    options.snapshot = session->Snapshot();
    session->Leave();
  }
  // The node's own part, which it has saved beside the run's.
  const auto again = Session::Open(work.Write("again", Workspace::Solver(9)), options);
  const caffe::SolverState own = LoadResumePoint(options.snapshot).state,
                           resumed = LoadResumePoint(again->Snapshot()).state;
  EXPECT_GT(momentum(resumed), 0);
  EXPECT_EQ(momentum(resumed), momentum(own));
  EXPECT_EQ(resumed.stream(0).SerializeAsString(), own.stream(0).SerializeAsString());
}

TEST(Session, TellsTheOthersThatItsLossWasNotFinite) {
  Workspace work;
  const LogWatch log;
  SessionOptions options;
  options.topology = TwoNodes(work / "");
  options.node = "a";
  const auto a = Session::Open(work.Write("a", Workspace::Solver(50)), options);
  WriteFile(work / "overflowing.prototxt", OverflowingText(work.Net()));
  caffe::SolverParameter overflowing = Workspace::Solver(50);
  overflowing.set_net(work / "overflowing.prototxt");
  options.node = "b";
  auto b = Session::Open(work.Write("b", overflowing), options);
  EXPECT_CONTAINS(ErrorOf([&] { b->Step(); }), "the loss is not finite");
  EXPECT_TRUE(Eventually([&] { return log.Saw("node b has failed: iteration "); }));
  b.reset();
  while (a->Step()) {
  }
  EXPECT_EQ(ErrorOf([&] { a->Finish(); }).rfind("node b ended with a loss that is not finite", 0),
            0u);
}

TEST(Session, WaitsForTheWeightsOfTheRunAsLongAsItIsTold) {
  Workspace work;
  SessionOptions options;
  options.topology = TwoNodes(work / "");
  options.node = "a";
  options.join_seconds = 0;  // a node that is alone waits a second for others
  EXPECT_EQ(ErrorOf([&] { Session::Open(work.Write("a", Workspace::Solver(5)), options); }),
            "cluster c: node a has not received the run's weights within 0 s");
}

}  // namespace
}  // namespace millrace::test
