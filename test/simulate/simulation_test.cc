#include "simulate/simulation.h"

#include <cmath>

#include "exchange/kernels/codec_config.h"
#include "exchange/kernels/rules/default_merge_rule.h"
#include "proto/parse.h"
#include "solver/rate_scale.h"
#include "test/simulate/simulate_support.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

class SimulationTest : public testing::Test {
 protected:
  SolverConfig Config(int iterations) {
    return LoadSolverConfig(work_.Write("run", Workspace::Solver(iterations)));
  }

  Workspace work_;
};

TEST_F(SimulationTest, OfOneWorkerIsATrainingRun) {
  const auto solver = Workspace::Solver(20);
  TrainOptions options;
  options.solver_file = work_.Write("whole", solver);
  Train(options);
  Simulation simulation(Config(20), {.workers = 1});
  simulation.Run({});
  simulation.Save(work_ / "simulated.caffemodel");
  caffe::NetParameter model;
  LoadBinary(work_ / "simulated.caffemodel", "a caffemodel", &model);
  EXPECT_EQ(model.SerializeAsString(),
            LoadModel(work_.Snapshot("whole", 20) + ".caffemodel").SerializeAsString());
}

TEST_F(SimulationTest, RepeatsBitForBitOnAnyNumberOfThreads) {
  SimulationOptions options{.workers = 5, .step_ms = 2, .network = {20, 0.3, 0.1}, .mtu = 600};
  options.threads = 1;
  const Simulated one = Simulate(Config(100), options);
  options.threads = 3;
  const Simulated three = Simulate(Config(100), options);
  EXPECT_EQ(one.weights, three.weights);
  EXPECT_EQ(one.end.bytes_sent, three.end.bytes_sent);
  EXPECT_EQ(one.end.seconds, three.end.seconds);
  options.seed = 2;
  EXPECT_NE(Simulate(Config(100), options).weights, one.weights);
}

TEST_F(SimulationTest, EndsWithTheSameWeightsEverywhere) {
  for (const char* codec :
       {"float32", "bfloat16", "int8", "sparse:0.01", "topk:0.05", "random:0.05"}) {
    SCOPED_TRACE(codec);
    const Simulated outcome = Simulate(
        Config(60),
        {.workers = 4, .network = {100, 0.2, 0.1}, .mtu = 600, .codec = *ParseCodec(codec)});
    EXPECT_EQ(outcome.distance, 0);
    EXPECT_EQ(outcome.end.iterations, 60);
    EXPECT_GT(outcome.end.bytes_sent, 0u);
  }
}

TEST_F(SimulationTest, LearnsWithSeveralWorkers) {
  const auto solver = Workspace::Tested(Workspace::Solver(400), 100);
  const Simulated outcome =
      Simulate(LoadSolverConfig(work_.Write("tested", solver)), {.workers = 4, .mtu = 600});
  EXPECT_EQ(outcome.tested, (std::vector<int64_t>{0, 100, 200, 300, 400}));
  EXPECT_GT(outcome.accuracy, 0.9);
}

TEST_F(SimulationTest, LearnsWithEachMergeRule) {
  struct Case {
    MergeRuleConfig rule;
    const char* codec = "float32";
    std::optional<bool> damping = {};
  };
  const Case cases[] = {
      {{"easgd", {{"pull", 0.1125}}}, "float32", false},
      {{"outer", {{"rate", 0.125}}}, "float32", false},
      {{"outer", {{"rate", 0.0875}, {"momentum", 0.5}, {"nesterov", 1}, {"delay", 8}}},
       "float32",
       false},
      {{"staleness", {}}},
      {{"delay_compensated", {}}},
      {{"gap_aware", {}}},
      {{"cgad", {{"rate", 5e-4}}}, "float32", false},
      {{"heloco", {}}, "float32", false},
      {{"mla", {{"rate", 0.0875}, {"momentum", 0.5}, {"ahead", 0.75}, {"delay", 8}}},
       "float32",
       false},
      {{"decayed", {}}, "topk:0.1"},
      {{"additive", {}}, "random:0.25"}};
  const auto solver = Workspace::Tested(Workspace::Solver(800), 800);
  const SolverConfig config = LoadSolverConfig(work_.Write("tested", solver));
  for (const Case& each : cases) {
    SCOPED_TRACE(each.rule.name + " " + each.codec);
    const Simulated outcome = Simulate(config, {.workers = 8,
                                                .mtu = 600,
                                                .rule = each.rule,
                                                .codec = *ParseCodec(each.codec),
                                                .damping = each.damping});
    EXPECT_GT(outcome.accuracy, 0.9);
    EXPECT_EQ(outcome.distance, 0);
  }
}

TEST_F(SimulationTest, MergesAsASegmentOfAsManyNodesThatNamesNoRule) {
  const auto weights = [&](int workers, const MergeRuleConfig& rule, std::optional<bool> damping,
                           bool scales = false, bool scales_rate = false,
                           std::optional<Codec> codec = {}) {
    return Simulate(Config(120),
                    {.workers = workers,
                     .mtu = 600,
                     .rule = rule,
                     .scales = scales,
                     .scales_rate = scales_rate,
                     .codec = codec ? std::optional(CodecConfig{.codec = *codec}) : std::nullopt,
                     .position_codec = codec,
                     .damping = damping})
        .weights;
  };
  const MergeRuleConfig none = {.name = "", .parameters = {}};
  EXPECT_EQ(weights(2, none, {}, true), weights(2, {"additive", {}}, true));
  EXPECT_EQ(weights(4, none, {}, true),
            weights(4, {"average", {}}, false, false, true, Codec::kInt8));
  EXPECT_NE(weights(4, none, {}, true), weights(4, none, {}, true, false, Codec::kFloat32));
  EXPECT_EQ(weights(4, none, {}, true, false, Codec::kFloat32),
            weights(4, {"average", {}}, false, false, true));
  EXPECT_NE(weights(4, none, {}, true), weights(4, {"average", {}}, false));
  EXPECT_EQ(weights(8, none, {}), weights(8, {"additive", {}}, true));
  const MergeRuleConfig outer = DefaultMergeRuleFor(9).rule;
  EXPECT_EQ(outer.name, "outer");
  EXPECT_EQ(weights(9, none, {}), weights(9, outer, false));
  EXPECT_NE(weights(9, none, {}), weights(9, {"additive", {}}, {}));
  EXPECT_EQ(weights(9, none, true), weights(9, outer, true));
}

TEST_F(SimulationTest, TakesTheTimeOfItsIterations) {
  auto solver = Workspace::Solver(40);
  solver.set_display(10);
  const Simulated outcome = Simulate(LoadSolverConfig(work_.Write("timed", solver)),
                                     {.workers = 4, .step_ms = 5, .jitter = 0, .mtu = 600});
  EXPECT_DOUBLE_EQ(outcome.end.seconds, 0.050);
  EXPECT_EQ(outcome.displayed, (std::vector<int64_t>{10, 20, 30, 40}));
  // Worker 0 ends one iteration while each of the others ends ten.
  const Simulated slow = Simulate(
      Config(31), {.workers = 4, .step_ms = 5, .jitter = 0, .slow = {{0, 10}}, .mtu = 600});
  EXPECT_DOUBLE_EQ(slow.end.seconds, 0.050);
}

TEST_F(SimulationTest, StalenessGrowsAsTheLinkGetsSlower) {
  const auto staleness = [&](double mbps) {
    return Simulate(Config(200), {.workers = 4, .network = {mbps, 0.1, 0}, .mtu = 600})
        .end.staleness;
  };
  const double fast = staleness(1000), slow = staleness(2);
  EXPECT_GT(fast, 0.5);
  EXPECT_GT(slow, 3 * fast);
}

// Every node at most the progress of RateScale::kMaxProgress iterations between two exchanges.
TEST_F(SimulationTest, ScalesTheRateByTheWorkersAndLessOnSlowLinks) {
  const auto end = [&](double mbps) {
    return Simulate(Config(4000), {.workers = 4,
                                   .jitter = 0,
                                   .network = {mbps, 0.1, 0},
                                   .mtu = 600,
                                   .rule = {"average", {}},
                                   .scales_rate = true,
                                   .damping = false})
        .end;
  };
  const double of_file = Config(1).param.base_lr();
  EXPECT_FLOAT_EQ(end(1000).rate, 4 * of_file);
  const SimulationStatus slow = end(0.7);
  ASSERT_GT(slow.staleness, 1.5 * RateScale::kMaxProgress);
  EXPECT_NEAR(slow.rate / of_file, std::max(1.0, 4 * RateScale::kMaxProgress / slow.staleness),
              0.5);
}

TEST_F(SimulationTest, StopsWhenItIsTold) {
  Simulation simulation(Config(1000), {.workers = 3, .mtu = 600});
  int asked = 0;
  SimulationObserver observer;
  observer.stop = [&] { return ++asked > 20; };
  const SimulationStatus end = simulation.Run(observer);
  EXPECT_EQ(end.iterations, 20);
  EXPECT_EQ(simulation.LargestDistance(), 0);
}

TEST_F(SimulationTest, NamesTheWorkerThatCannotGoOn) {
  work_.WriteNet(OverflowingText(work_.Net()));
  Simulation simulation(Config(10), {.workers = 3, .mtu = 600});
  const std::string error = ErrorOf([&] { simulation.Run({}); });
  EXPECT_EQ(error.find("worker "), 0u) << error;
}

TEST_F(SimulationTest, RefusesOptionsOutOfRange) {
  const SolverConfig config = Config(1);
  const auto error = [&](const SimulationOptions& options) {
    return ErrorOf([&] { Simulation simulation(config, options); });
  };
  EXPECT_EQ(error({.workers = 0}), "workers: 0 given, expected 1 to 64");
  EXPECT_EQ(error({.workers = 65}), "workers: 65 given, expected 1 to 64");
  EXPECT_EQ(error({.step_ms = NAN}), "step_ms: nan given, expected 0.001 to 1000000");
  EXPECT_EQ(error({.jitter = 1}), "jitter: 1 given, expected 0 to less than 1");
  EXPECT_EQ(error({.network = {.loss = 0.95}}), "loss: 0.95 given, expected 0 to 0.9");
  EXPECT_EQ(error({.network = {.max_mbps = 0}}), "max_mbps: 0 given, expected 0.01 to 1000000");
  EXPECT_EQ(error({.workers = 2, .slow = {{2, 3}}}),
            "slow: worker: 2 given, expected a number below that of workers");
  EXPECT_EQ(error({.mtu = 100}), "mtu: 100 given, expected 576 to 65535");
  EXPECT_EQ(error({.rule = {.name = "decayed", .parameters = {}}}),
            "merge rule decayed: codec is float32, which leaves nothing unsent: expected sparse, "
            "topk or random");
  EXPECT_CONTAINS(error({.rule = {.name = "nonesuch", .parameters = {}}}), "nonesuch");
}

}  // namespace
}  // namespace millrace::test
