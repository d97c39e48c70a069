// A simulation that is continued from a snapshot goes on as the one that has written it, bit for
// bit: with each strategy, merge rule and codec. States that do not fit are refused in one line.
#include <google/protobuf/text_format.h>

#include "exchange/kernels/codec_config.h"
#include "proto/parse.h"
#include "simulate/simulation.h"
#include "solver/run_state.h"
#include "test/simulate/simulate_support.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

struct Case {
  const char* name;
  const char* strategy;
  MergeRuleConfig rule = {.name = "additive", .parameters = {}};
  CodecConfig codec = {};
  double loss = 0;
  const char* type = "SGD";
};

std::ostream& operator<<(std::ostream& out, const Case& of) { return out << of.name; }

class Simulated2n : public testing::TestWithParam<Case> {
 protected:
  SolverConfig Config(const std::string& name, int iterations,
                      const std::string& strategy = GetParam().strategy, bool hdf5 = false) {
    caffe::SolverParameter solver = Workspace::Solver(iterations);
    solver.set_type(GetParam().type);
    if (hdf5) solver.set_snapshot_format(caffe::SolverParameter::HDF5);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(strategy, solver.mutable_strategy()));
    return LoadSolverConfig(work_.Write(name, solver));
  }

  SimulationOptions Options(int workers = 4) const {
    SimulationOptions options{.workers = workers, .step_ms = 2};
    options.network = {20, 0.3, GetParam().loss};
    options.mtu = 600;
    options.rule = GetParam().rule;
    options.codec = GetParam().codec;
    return options;
  }

  Workspace work_;
};

TEST_P(Simulated2n, IsNThenASnapshotThenN) {
  SimulationOptions options = Options();
  options.snapshot_every = 20;
  const Simulated whole = Simulate(Config("whole", 40), options);
  EXPECT_EQ(whole.end.iterations, 40);
  for (const bool hdf5 : {false, true}) {
    options.threads = hdf5 ? 3 : 1;
    options.snapshot.clear();
    const std::string name = hdf5 ? "half_hdf5" : "half";
    const Simulated half = Simulate(Config(name, 20, GetParam().strategy, hdf5), options);
    EXPECT_EQ(half.end.iterations, 20);
    options.snapshot = work_.Snapshot(name, 20) + (hdf5 ? ".solverstate.h5" : ".solverstate");
    const Simulated rest = Simulate(Config("rest", 40), options);
    EXPECT_EQ(rest.weights, whole.weights) << name;
    EXPECT_EQ(rest.end.seconds, whole.end.seconds);
    EXPECT_EQ(rest.end.bytes_sent, whole.end.bytes_sent);
    EXPECT_EQ(rest.end.staleness, whole.end.staleness);
    EXPECT_NE(rest.weights, half.weights);
    // The snapshot of the end holds all that the next part would begin with.
    const auto state = [&](const char* of) {
      ResumePoint point = LoadResumePoint(work_.Snapshot(of, 40) + ".solverstate");
      point.state.clear_learned_net();
      // How far the data are read ahead depends on threads.
      point.state.clear_stream();
      for (SolverPart& part : *point.run->mutable_solver()) part.clear_stream();
      return point.state.SerializeAsString() + point.run->SerializeAsString();
    };
    EXPECT_EQ(state("rest"), state("whole")) << name;
  }
}

// Otherwise the test above could not tell whether a state was restored.
TEST_P(Simulated2n, DependsOnTheStateThatTheSnapshotHolds) {
  if (GetParam().rule.name == "gap_aware") GTEST_SKIP() << "workers have its state";
  SimulationOptions options = Options();
  options.snapshot_every = 20;
  Simulate(Config("half", 20), options);
  const std::string path = work_.Snapshot("half", 20) + ".solverstate";
  options.snapshot = path;
  const Simulated rest = Simulate(Config("rest", 40), options);
  ResumePoint point = LoadResumePoint(path);
  bool has_state = false;
  for (StateArray* const array : ArraysOf(&*point.run)) {
    if (array->name() == "base") continue;  // conditions of steps do not look at it
    for (float& value : *array->mutable_value()) value = 0.9f * value + 0.001f;
    has_state = true;
  }
  if (!has_state) GTEST_SKIP() << "the rule has no arrays";
  SetRunState(*point.run, &point.state);
  SaveBinary(path, point.state);
  EXPECT_NE(Simulate(Config("rest", 40), options).weights, rest.weights);
}

constexpr char kHogwild[] = "type: 'hogwild'";

INSTANTIATE_TEST_SUITE_P(
    Rules, Simulated2n,
    testing::Values(
        Case{"hogwild", kHogwild}, Case{"lossy", kHogwild, {}, {}, 0.1},
        Case{"adam", kHogwild, {}, {}, 0, "Adam"},
        Case{"nesterov", kHogwild, {}, {}, 0, "Nesterov"},
        Case{"compensated", "type: 'hogwild' param { key: 'delay_compensation' value: 4 }"},
        Case{"outer",
             kHogwild,
             {"outer", {{"rate", 0.2}, {"momentum", 0.9}, {"nesterov", 1}, {"delay", 4}}}},
        Case{"outer_momentum",
             kHogwild,
             {"outer", {{"rate", 0.2}, {"momentum", 0.5}, {"delay", 3}}}},
        Case{"easgd", kHogwild, {"easgd", {{"pull", 0.2}, {"rest", 1e-3}}}},
        Case{"staleness", kHogwild, {"staleness", {}}},
        Case{"gap_aware", kHogwild, {"gap_aware", {}}}, Case{"cgad", kHogwild, {"cgad", {}}},
        Case{"heloco", kHogwild, {"heloco", {}}},
        Case{"mla", kHogwild, {"mla", {{"rate", 0.2}, {"delay", 3}}}},
        Case{"delay_compensated", kHogwild, {"delay_compensated", {}}},
        Case{"topk", kHogwild, {}, *ParseCodec("topk:0.1")},
        Case{"decayed", kHogwild, {"decayed", {}}, *ParseCodec("random:0.1")},
        Case{"int8", kHogwild, {}, *ParseCodec("int8")},
        Case{"downpour",
             "type: 'local' param { key: 'push' value: 3 } param { key: 'fetch' value: 5 }"},
        Case{"local_average",
             "type: 'local' sync_condition { type: 'steps' param { key: 'every' value: 3 } }"
             " merge_rule { type: 'average' }"},
        Case{"local_easgd",
             "type: 'local' sync_condition { type: 'steps' param { key: 'every' value: 3 } }"
             " merge_rule { type: 'easgd' param { key: 'pull' value: 0.3 } }",
             {"outer", {{"rate", 0.2}, {"momentum", 0.5}}}},
        Case{"local_adaptive",
             "type: 'local' sync_condition { type: 'adaptive' param { key: 'staleness' value: 9 } }"
             " merge_rule { type: 'easgd' param { key: 'pull' value: 0.3 } }"},
        Case{"allreduce", "type: 'allreduce'"},
        Case{"allreduce_average",
             "type: 'allreduce' param { key: 'every' value: 5 } merge_rule { type: 'average' }"},
        Case{"allreduce_outer",
             "type: 'allreduce' param { key: 'every' value: 5 } merge_rule { type: 'outer' }"},
        Case{"allreduce_easgd",
             "type: 'allreduce' param { key: 'every' value: 2 }"
             " merge_rule { type: 'easgd' param { key: 'pull' value: 0.2 } }"},
        Case{"gossip", "type: 'gossip'"}, Case{"lossy_gossip", "type: 'gossip'", {}, {}, 0.1},
        Case{"rare_gossip",
             "type: 'gossip' sync_condition { type: 'steps' param { key: 'every' value: 3 } }"},
        Case{"noloco",
             "type: 'gossip' merge_rule { type: 'noloco' }"
             " sync_condition { type: 'steps' param { key: 'every' value: 2 } }"}),
    [](const auto& of) { return of.param.name; });

class SimulatedResume : public testing::Test {
 protected:
  SolverConfig Config(const std::string& name, const std::string& strategy, int iterations = 8) {
    caffe::SolverParameter solver = Workspace::Solver(iterations);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(strategy, solver.mutable_strategy()));
    return LoadSolverConfig(work_.Write(name, solver));
  }
  std::string RefusalOf(const std::string& strategy, SimulationOptions options) {
    options.snapshot = path_;
    options.snapshot_every = 0;
    return ErrorOf([&] { Simulation(Config("refused", strategy), options); });
  }

  Workspace work_;
  SimulationOptions options_{.workers = 3, .mtu = 600, .snapshot_every = 4};
  const std::string path_ = work_.Snapshot("run", 4) + ".solverstate";
};

TEST_F(SimulatedResume, RefusesAnotherRuleNumberOfWorkersOrNet) {
  options_.rule = {"outer", {}};
  Simulate(Config("run", kHogwild, 4), options_);
  SimulationOptions other = options_;
  other.rule = {};
  EXPECT_EQ(RefusalOf(kHogwild, other),
            path_ +
                ": run_state.rule: 'simulated hogwild, exchange outer' stored, expected 'simulated "
                "hogwild, exchange additive', that of the solver file; its model alone can begin "
                "another run");
  EXPECT_CONTAINS(RefusalOf("type: 'gossip'", other), "expected 'simulated gossip'");
  other = options_;
  other.workers = 5;
  EXPECT_EQ(RefusalOf(kHogwild, other),
            path_ + ": run_state.solvers: 3 stored, expected 5, those of this run");
  SmallNet net = work_.Net();
  net.convolution = true;
  work_.WriteNet(net);
  EXPECT_CONTAINS(RefusalOf(kHogwild, options_), path_ + ": run_state.weights: ");
}

TEST_F(SimulatedResume, RefusesASnapshotOfATrainingAndATrainingRefusesItsOwn) {
  caffe::SolverParameter solver = Workspace::Solver(4);
  RunNamed(work_, "run", solver);
  EXPECT_EQ(RefusalOf(kHogwild, options_),
            path_ + ": run_state: missing, expected that of a simulation with 3 workers");
  Simulate(Config("run", kHogwild, 4), options_);
  TrainOptions options;
  options.snapshot = path_;
  EXPECT_CONTAINS(ErrorOf([&] { RunNamed(work_, "train", solver, options); }),
                  path_ +
                      ": run_state.rule: 'simulated hogwild, exchange additive' stored, "
                      "expected none");
}

TEST_F(SimulatedResume, RefusesArraysThatDoNotFit) {
  options_.rule = {"outer", {}};
  Simulate(Config("run", kHogwild, 4), options_);
  ResumePoint point = LoadResumePoint(path_);
  const auto refusal = [&](const RunState& run) {
    SetRunState(run, &point.state);
    SaveBinary(path_, point.state);
    SimulationOptions options = options_;
    options.snapshot = path_;
    return ErrorOf([&] { Simulate(Config("refused", kHogwild), options); });
  };
  RunState run = *point.run;
  run.mutable_array(0)->mutable_value()->RemoveLast();
  const int floats = point.run->array(0).value_size();
  EXPECT_EQ(refusal(run), StrCat(path_, ": run_state.rule_state: ", floats - 1,
                                 " floats stored, expected ", floats));
  run.clear_array();
  EXPECT_EQ(refusal(run),
            StrCat(path_, ": run_state.rule_state: missing, expected ", floats, " floats"));
  run = *point.run;
  run.mutable_numbers(0)->set_value(0, -1);
  EXPECT_CONTAINS(refusal(run), path_ + ": run_state.totals: -1 stored, expected a whole number");
  run = *point.run;
  run.mutable_solver()->RemoveLast();
  EXPECT_EQ(refusal(run), path_ + ": run_state.solver: 2 parts stored, expected 3");
}

TEST_F(SimulatedResume, RefusesSnapshotsBetweenMerges) {
  EXPECT_CONTAINS(
      ErrorOf([&] {
        Simulation(Config("run",
                          "type: 'allreduce' param { key: 'every' value: 3 }"
                          " merge_rule { type: 'average' }"),
                   options_);
      }),
      "snapshot_every: 4 given, expected a multiple of the 3 iterations between merges");
}

TEST_F(SimulatedResume, WritesASnapshotWhereAStopConditionEndsTheRun) {
  caffe::SolverParameter solver = Workspace::Solver(1000);
  caffe::PartParameter& stop = *solver.add_stop_condition();
  stop.set_type("iterations");
  (*stop.mutable_param())["most"] = 6;
  options_.workers = 1;
  const Simulated outcome = Simulate(LoadSolverConfig(work_.Write("run", solver)), options_);
  EXPECT_EQ(outcome.end.iterations, 6);
  EXPECT_EQ(LoadResumePoint(work_.Snapshot("run", 6) + ".solverstate").iteration(), 6);
  EXPECT_EQ(LoadResumePoint(path_).iteration(), 4);
}

}  // namespace
}  // namespace millrace::test
