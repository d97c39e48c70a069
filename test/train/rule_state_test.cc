// Snapshots hold the state of merge rules: a continued run goes on with it, and refuses one that
// does not fit.
#include <google/protobuf/text_format.h>

#include "proto/parse.h"
#include "solver/run_state.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

caffe::SolverParameter With(const std::string& strategy, int iterations, int snapshot,
                            const std::string& fields = "") {
  caffe::SolverParameter solver = Workspace::Solver(iterations);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(strategy, solver.mutable_strategy()));
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(fields, &solver));
  solver.set_snapshot(snapshot);
  return solver;
}

std::string StatePath(const Workspace& work, const std::string& name, int64_t iteration) {
  const std::string path = work.Snapshot(name, iteration) + ".solverstate";
  return FileExists(path) ? path : path + ".h5";
}

std::string MergeRule(const std::string& rule, const std::string& param = "") {
  return "type: 'allreduce' param { key: 'every' value: 5 } merge_rule { type: '" + rule + "' " +
         param + " }";
}
const char* const kPull = "param { key: 'pull' value: 0.2 }";

// Strategy, fields of the solver file, solvers.
using Exact = std::tuple<std::string, std::string, int>;

class RuleState : public testing::TestWithParam<Exact> {};

TEST_P(RuleState, ContinuesExactly) {
  const auto& [strategy, fields, solvers] = GetParam();
  Workspace work;
  RunNamed(work, "whole", With(strategy, 30, 10, fields), WithSolvers(solvers));
  TrainOptions options = WithSolvers(solvers);
  for (const int at : {10, 20}) {
    options.snapshot = StatePath(work, "whole", at);
    RunNamed(work, "rest", With(strategy, 30, 10, fields), options);
    EXPECT_EQ(WeightsOf(LoadModel(LoadResumePoint(StatePath(work, "rest", 30)).model_path)),
              WeightsOf(LoadModel(LoadResumePoint(StatePath(work, "whole", 30)).model_path)));
    const auto state = [&](const char* name) {
      const ResumePoint point = LoadResumePoint(StatePath(work, name, 30));
      return point.run ? point.run->SerializeAsString() : "";
    };
    EXPECT_EQ(state("rest"), state("whole"));
  }
}

std::vector<Exact> ExactRuns() {
  std::vector<Exact> runs;
  for (const int solvers : {1, 3}) {
    for (const std::string& rule : {MergeRule("outer"), MergeRule("easgd", kPull),
                                    MergeRule("average"), MergeRule("additive")}) {
      runs.emplace_back(rule, "base_lr: 0.02", solvers);
    }
    runs.emplace_back(MergeRule("outer"), "type: 'Adam' base_lr: 0.001", solvers);
    runs.emplace_back(MergeRule("outer"), "snapshot_format: HDF5", solvers);
    runs.emplace_back(MergeRule("easgd", kPull), "snapshot_format: HDF5", solvers);
  }
  const std::string steps =
      "type: 'local' sync_condition { type: 'steps' param { key: 'every' "
      "value: 4 } } merge_rule { type: 'easgd' param { key: 'pull' value: "
      "0.3 } }";
  runs.emplace_back(steps, "", 1);
  runs.emplace_back(steps, "snapshot_format: HDF5", 1);
  return runs;
}

INSTANTIATE_TEST_SUITE_P(Rules, RuleState, testing::ValuesIn(ExactRuns()));

// Solvers that do not wait for each other: a run that ends at once has what it began with.
TEST(RuleStateOfSeveral, EachSolverGoesOnWithItsOwnWeights) {
  for (const std::string& strategy :
       {std::string("type: 'gossip' sync_condition { type: 'steps' param { key: 'every' value: 3 } "
                    "}"),
        std::string("type: 'gossip' merge_rule { type: 'noloco' } sync_condition { type: 'steps' "
                    "param { key: 'every' value: 3 } }"),
        std::string("type: 'local' sync_condition { type: 'adaptive' } merge_rule { type: 'easgd' "
                    "param { key: 'pull' value: 0.3 } }")}) {
    Workspace work;
    RunNamed(work, "run", With(strategy, 40, 0), WithSolvers(3));
    ResumePoint point = LoadResumePoint(StatePath(work, "run", 40));
    RunState saved = *point.run;
    ASSERT_EQ(saved.solver_size(), 3);
    for (int i = 0; i < 3; ++i) {
      StateArray& weights = *saved.mutable_solver(i)->mutable_array(0);
      for (float& value : *weights.mutable_value()) value += static_cast<float>(i + 1);
    }
    SetRunState(saved, &point.state);
    SaveBinary(point.path, point.state);
    TrainOptions options = WithSolvers(3);
    options.snapshot = point.path;
    RunNamed(work, "rest", With(strategy, 40, 0), options);
    const RunState rest = *LoadResumePoint(StatePath(work, "rest", 40)).run;
    if (strategy.find("gossip") != std::string::npos) {
      EXPECT_EQ(rest.SerializeAsString(), saved.SerializeAsString());
      continue;
    }
    // At the end each is pulled towards the center, by 0.3 of its distance. It would be there if it
    // had begun with it.
    for (int i = 0; i < 3; ++i) {
      const float moved = rest.solver(i).array(0).value(0) - saved.solver(i).array(0).value(0);
      EXPECT_GT(moved, -0.5f * static_cast<float>(i + 1)) << i;
      EXPECT_EQ(rest.solver(i).numbers(0).SerializeAsString(),
                saved.solver(i).numbers(0).SerializeAsString());
    }
  }
}

class RefusedRuleState : public testing::Test {
 protected:
  RefusedRuleState() { RunNamed(work_, "run", With(MergeRule("outer"), 10, 10), WithSolvers(2)); }

  std::string RefusalOf(const std::string& strategy, int solvers) {
    TrainOptions options = WithSolvers(solvers);
    options.snapshot = path_;
    return ErrorOf([&] { RunNamed(work_, "refused", With(strategy, 20, 0), options); });
  }

  Workspace work_;
  const std::string path_ = work_.Snapshot("run", 10) + ".solverstate";
};

TEST_F(RefusedRuleState, IsThatOfAnotherRule) {
  const std::string stored = path_ + ": run_state.rule: 'allreduce outer' stored, expected ";
  EXPECT_EQ(RefusalOf(MergeRule("easgd", kPull), 2),
            stored +
                "'allreduce easgd', that of the solver file; its model alone can begin "
                "another run");
  EXPECT_CONTAINS(RefusalOf(MergeRule("average"), 2), stored + "none, ");
  EXPECT_CONTAINS(RefusalOf("type: 'hogwild'", 2), stored + "none, ");
  EXPECT_CONTAINS(RefusalOf("type: 'gossip'", 2), stored + "'gossip', ");
}

TEST_F(RefusedRuleState, IsThatOfAnotherNumberOfSolvers) {
  EXPECT_EQ(RefusalOf(MergeRule("outer"), 3),
            path_ + ": run_state.solvers: 2 stored, expected 3, those of this run");
}

TEST_F(RefusedRuleState, HasArraysOfAnotherSize) {
  ResumePoint point = LoadResumePoint(path_);
  RunState run = *point.run;
  StateArray* const velocity = run.mutable_solver(0)->mutable_array(0);
  const int floats = velocity->value_size();
  velocity->add_value(1);
  SetRunState(run, &point.state);
  SaveBinary(path_, point.state);
  EXPECT_CONTAINS(RefusalOf(MergeRule("outer"), 2),
                  StrCat(path_, ": run_state.solver[0].velocity: ", floats + 1,
                         " floats stored, expected ", floats));
}

TEST_F(RefusedRuleState, IsDamaged) {
  caffe::SolverState state = LoadState(path_);
  *state.GetReflection()->MutableUnknownFields(&state)->AddLengthDelimited(kRunStateField) =
      "\x0a\xff";
  SaveBinary(path_, state);
  EXPECT_EQ(RefusalOf(MergeRule("outer"), 2),
            path_ + ": run_state: damaged, expected the state of a merge rule");
}

// A snapshot of Caffe, or of an earlier version, has none.
TEST_F(RefusedRuleState, MayBeMissing) {
  const RunState run = *LoadResumePoint(path_).run;
  SaveBinary(path_, LoadState(path_));
  TrainOptions options = WithSolvers(2);
  options.snapshot = path_;
  RunNamed(work_, "anew", With(MergeRule("outer"), 15, 0), options);
  EXPECT_EQ(LoadResumePoint(work_.Snapshot("anew", 15) + ".solverstate").run->solvers(), 2);
}

}  // namespace
}  // namespace millrace::test
