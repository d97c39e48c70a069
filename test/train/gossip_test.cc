// Runs with the strategy gossip: solvers that average their weights in pairs.
#include "proto/parse.h"
#include "solver/strategy_plan.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

caffe::SolverParameter Gossip(caffe::SolverParameter solver, const std::string& fields = "") {
  ParseText("type: 'gossip' " + fields, "strategy", solver.mutable_strategy(), nullptr);
  return solver;
}

constexpr char kEveryThree[] = "sync_condition { type: 'steps' param { key: 'every' value: 3 } }";

TEST(GossipRun, ASingleSolverTrainsAsHogwildBitForBitAndResumesExactly) {
  Workspace work;
  RunNamed(work, "hogwild", Workspace::Solver(23));
  caffe::SolverParameter solver = Gossip(Workspace::Solver(23), kEveryThree);
  solver.set_snapshot(11);
  RunNamed(work, "gossip", solver);
  EXPECT_EQ(ModelFile(work, "gossip", 23), ModelFile(work, "hogwild", 23));
  TrainOptions options;
  options.snapshot = work.Snapshot("gossip", 11) + ".solverstate";
  RunNamed(work, "resumed", solver, options);
  EXPECT_EQ(ModelFile(work, "resumed", 23), ModelFile(work, "hogwild", 23));
}

TEST(GossipRun, SeveralSolversLearnAndLoseNoIteration) {
  for (const char* fields : {"", kEveryThree}) {
    for (const int solvers : {2, 4}) {
      Workspace work;
      const Outcome outcome =
          RunNamed(work, "run", Workspace::Tested(Gossip(Workspace::Solver(400), fields), 100),
                   WithSolvers(solvers));
      EXPECT_EQ(outcome.Losses().size(), 400u);
      EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9) << solvers << " solvers " << fields;
      EXPECT_EQ(StateOf(work, "run", 400).solver_history_size(), solvers - 1);
    }
  }
}

// Tests score the mean, although no solver has it.
TEST(GossipRun, PeriodicTestsAreOfTheMeanOfAllSolvers) {
  Workspace work;
  const Outcome outcome =
      RunNamed(work, "run", Workspace::Tested(Gossip(Workspace::Solver(401), kEveryThree), 400),
               WithSolvers(2));
  double accuracy = 0;
  for (const MetricsRow& row : outcome.rows) {
    if (row.has_test() && row.iter() == 400) accuracy = row.test().outputs().at("accuracy");
  }
  EXPECT_GE(accuracy, 0.9);
}

TEST(GossipRun, RefusesWhatItDoesNotHave) {
  Workspace work;
  const std::string path = work.Write("run", Gossip(Workspace::Solver(5)));
  const SolverConfig config = LoadSolverConfig(path);
  const auto refusal = [&](const std::function<void(StrategyContext*)>& change) {
    StrategyContext context;
    context.config = &config;
    change(&context);
    const std::string error = ErrorOf([&] { MakeStrategies(context); });
    EXPECT_EQ(error.rfind(path + ":", 0), 0u) << error;
    return error;
  };
  const std::string reason =
      "strategy.type: is gossip, whose solvers average their weights in pairs in the memory of one "
      "process, expected no ";
  EXPECT_CONTAINS(refusal([](StrategyContext* context) { context->in_cluster = true; }),
                  reason + "topology");
  EXPECT_CONTAINS(refusal([](StrategyContext* context) { context->weights_are_shared = true; }),
                  reason + "weights that processes share (--shm)");
  EXPECT_CONTAINS(refusal([](StrategyContext* context) { context->solvers = 65; }),
                  "has at most 64 solvers, 65 given");
  caffe::SolverParameter solver = Gossip(Workspace::Solver(5), "merge_rule { type: 'average' }");
  EXPECT_CONTAINS(ErrorOf([&] { LoadSolverConfig(work.Write("rule", solver)); }),
                  "merge rule of the strategy gossip");
}

}  // namespace
}  // namespace millrace::test
