// Simulations with the strategies of the solver file, and its stop conditions.
#include <google/protobuf/text_format.h>

#include <cmath>

#include "proto/parse.h"
#include "simulate/simulation.h"
#include "test/simulate/simulate_support.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// `strategy`: the fields of StrategyParameter.
caffe::SolverParameter With(const std::string& strategy, caffe::SolverParameter solver) {
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(strategy, solver.mutable_strategy()));
  return solver;
}

constexpr char kDownpour[] =
    "type: 'local' param { key: 'push' value: 3 } param { key: 'fetch' value: 5 }";
constexpr char kElastic[] =
    "type: 'local' sync_condition { type: 'steps' param { key: 'every' value: 4 } }"
    " merge_rule { type: 'easgd' param { key: 'pull' value: 0.3 } }";
constexpr char kAllreduce[] = "type: 'allreduce'";
constexpr char kLocalSgd[] =
    "type: 'allreduce' param { key: 'every' value: 5 } merge_rule { type: 'average' }";
constexpr char kOuter[] =
    "type: 'allreduce' param { key: 'every' value: 5 } merge_rule { type: 'outer' }";
constexpr char kSynchronousElastic[] =
    "type: 'allreduce' param { key: 'every' value: 2 }"
    " merge_rule { type: 'easgd' param { key: 'pull' value: 0.2 } }";
constexpr char kGossip[] = "type: 'gossip'";
constexpr char kRareGossip[] =
    "type: 'gossip' sync_condition { type: 'steps' param { key: 'every' value: 3 } }";
constexpr char kNoLoCo[] =
    "type: 'gossip' merge_rule { type: 'noloco' }"
    " sync_condition { type: 'steps' param { key: 'every' value: 5 } }";
constexpr char kCompensated[] = "type: 'hogwild' param { key: 'delay_compensation' value: 40 }";

class SimulatedStrategies : public testing::TestWithParam<const char*> {
 protected:
  SolverConfig Config(const std::string& strategy, const caffe::SolverParameter& solver) {
    return LoadSolverConfig(work_.Write("run", With(strategy, solver)));
  }

  Workspace work_;
};

TEST_P(SimulatedStrategies, OfOneWorkerIsATrainingRun) {
  TrainOptions options;
  options.solver_file = work_.Write("whole", With(GetParam(), Workspace::Solver(22)));
  Train(options);
  Simulation simulation(Config(GetParam(), Workspace::Solver(22)), {.workers = 1});
  simulation.Run({});
  simulation.Save(work_ / "simulated.caffemodel");
  caffe::NetParameter model;
  LoadBinary(work_ / "simulated.caffemodel", "a caffemodel", &model);
  EXPECT_EQ(WeightsOf(model), WeightsOf(work_, "whole", 22));
}

TEST_P(SimulatedStrategies, RepeatsBitForBitOnAnyNumberOfThreads) {
  const SolverConfig config = Config(GetParam(), Workspace::Solver(30));
  SimulationOptions options{.workers = 5, .step_ms = 2, .network = {20, 0.3, 0}, .mtu = 600};
  options.threads = 1;
  const Simulated one = Simulate(config, options);
  options.threads = 3;
  const Simulated three = Simulate(config, options);
  EXPECT_EQ(one.weights, three.weights);
  EXPECT_EQ(one.end.bytes_sent, three.end.bytes_sent);
  EXPECT_EQ(one.end.seconds, three.end.seconds);
  EXPECT_GT(one.end.bytes_sent, 0u);
}

TEST_P(SimulatedStrategies, LearnsAndEndsWithTheSameWeightsEverywhere) {
  const bool steps_together = std::string(GetParam()).find("allreduce") != std::string::npos;
  const int iterations = steps_together ? 200 : 800;
  const SolverConfig config =
      Config(GetParam(), Workspace::Tested(Workspace::Solver(iterations), iterations));
  const Simulated outcome = Simulate(config, {.workers = 4, .mtu = 600});
  EXPECT_GT(outcome.accuracy, 0.9);
  EXPECT_EQ(outcome.distance, 0);
  EXPECT_EQ(outcome.end.iterations, iterations);
}

INSTANTIATE_TEST_SUITE_P(Strategies, SimulatedStrategies,
                         testing::Values(kDownpour, kElastic, kAllreduce, kLocalSgd, kOuter,
                                         kSynchronousElastic, kGossip, kRareGossip, kNoLoCo,
                                         kCompensated));

class SimulatedStrategy : public SimulatedStrategies {};

TEST_F(SimulatedStrategy, SynchronousWorkersTakeTheStepsOfOneSolverWithTheBatchOfAll) {
  SmallNet net = work_.Net();
  net.batch = 16;
  work_.WriteNet(net);
  TrainOptions options;
  options.solver_file = work_.Write("whole", Workspace::Solver(20));
  Train(options);
  const std::vector<float> whole = WeightsOf(work_, "whole", 20);
  net.batch = 4;
  work_.WriteNet(net);
  for (const char* strategy :
       {"type: 'allreduce'", "type: 'allreduce' merge_rule { type: 'average' }"}) {
    Simulation simulation(Config(strategy, Workspace::Solver(20)), {.workers = 4});
    simulation.Run({});
    simulation.Save(work_ / "simulated.caffemodel");
    caffe::NetParameter model;
    LoadBinary(work_ / "simulated.caffemodel", "a caffemodel", &model);
    const std::vector<float> weights = WeightsOf(model);
    ASSERT_EQ(weights.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(weights[i], whole[i], 1e-4f) << i;
  }
}

// 2 (N - 1) (bytes / N / rate + delay), with the headers of packets.
double RingSeconds(size_t floats, const SimulationOptions& options) {
  const double part = static_cast<double>(floats) * 4 / options.workers;
  const double bytes = part + std::ceil(part / (options.mtu - 28)) * 66;
  return 2 * (options.workers - 1) *
         (bytes * 8 / (options.network.max_mbps * 1e6) + options.network.delay_ms / 1e3);
}

TEST_F(SimulatedStrategy, ASynchronousStepLastsAsLongAsTheSlowestWorkerAndTheRing) {
  const SimulationOptions options{
      .workers = 4, .step_ms = 5, .jitter = 0, .slow = {{1, 10}}, .network = {20, 2, 0}};
  const Simulated each = Simulate(Config(kAllreduce, Workspace::Solver(8)), options);
  const double ring = RingSeconds(each.weights.size(), options);
  EXPECT_NEAR(each.end.seconds, 8 * (0.05 + ring), 1e-6);
  // Between merges, nobody waits: of 8 steps, the 5th and the last end with one.
  const Simulated seldom = Simulate(Config(kLocalSgd, Workspace::Solver(8)), options);
  EXPECT_NEAR(seldom.end.seconds, 8 * 0.05 + 2 * ring, 1e-6);
  EXPECT_NEAR(static_cast<double>(each.end.bytes_sent),
              4.0 * static_cast<double>(seldom.end.bytes_sent), 4);
}

TEST_F(SimulatedStrategy, WorkersOfUnequalSpeedWaitOnlyAtMerges) {
  SimulationOptions options{.workers = 4, .step_ms = 5, .jitter = 0.5};
  options.network = {1e6, 0, 0};
  const double each = Simulate(Config(kAllreduce, Workspace::Solver(40)), options).end.seconds;
  const double seldom = Simulate(Config(kLocalSgd, Workspace::Solver(40)), options).end.seconds;
  EXPECT_LT(seldom, each);
}

TEST_F(SimulatedStrategy, SyncConditionsSeeVirtualTime) {
  const auto weights = [&](const char* condition, double every) {
    const std::string strategy =
        StrCat("type: 'local' sync_condition { type: '", condition,
               "' param { key: 'every' value: ", every,
               " } } merge_rule { type: 'easgd' param { key: 'pull' value: 0.3 } }");
    return Simulate(Config(strategy, Workspace::Solver(23)), {.workers = 1, .jitter = 0}).weights;
  };
  // Iterations last 10 ms.
  EXPECT_EQ(weights("seconds", 0.045), weights("steps", 5));
  EXPECT_NE(weights("seconds", 0.035), weights("steps", 5));
}

TEST_F(SimulatedStrategy, GossipLosesMassOnlyWithItsPackets) {
  const SolverConfig config = Config(kGossip, Workspace::Tested(Workspace::Solver(800), 800));
  const Simulated outcome =
      Simulate(config, {.workers = 4, .network = {1000, 0.1, 0.3}, .mtu = 600});
  EXPECT_GT(outcome.accuracy, 0.9);
  EXPECT_EQ(outcome.distance, 0);
}

TEST_F(SimulatedStrategy, DelayCompensationCorrectsOnlyWhatOthersHaveMoved) {
  const auto weights = [&](const char* strategy, int workers) {
    return Simulate(Config(strategy, Workspace::Solver(40)), {.workers = workers, .mtu = 600})
        .weights;
  };
  EXPECT_EQ(weights(kCompensated, 1), weights("type: 'hogwild'", 1));
  EXPECT_NE(weights(kCompensated, 4), weights("type: 'hogwild'", 4));
}

TEST_F(SimulatedStrategy, RefusesWhatItDoesNotSimulate) {
  const auto error = [&](const char* strategy, const SimulationOptions& options) {
    const SolverConfig config = Config(strategy, Workspace::Solver(5));
    return ErrorOf([&] { Simulation(config, options); });
  };
  EXPECT_EQ(error(kAllreduce, {.rule = {.name = "staleness", .parameters = {}}}),
            "rule: staleness given, expected none with the strategy allreduce, whose workers have "
            "no rule");
  EXPECT_EQ(error(kGossip, {.rule = {.name = "staleness", .parameters = {}}}),
            "rule: staleness given, expected none with the strategy gossip, whose workers have no "
            "rule");
  EXPECT_CONTAINS(error(kAllreduce, {.network = {.loss = 0.1}}),
                  "loss: 0.1 given, expected 0 with the strategy allreduce");
  EXPECT_CONTAINS(error(kGossip, {.codec = CodecConfig{.codec = Codec::kInt8}}),
                  "codec: another given, expected float32 with the strategy gossip");
  EXPECT_CONTAINS(error(kSynchronousElastic, {.workers = 8}),
                  "pull is 0.2, expected at most 1 / number of solvers, 0.125");
}

class SimulatedStop : public SimulatedStrategy {
 protected:
  Simulated Limited(const char* strategy, const char* condition, double value, int workers) {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(100'000), 10);
    caffe::PartParameter& stop = *solver.add_stop_condition();
    stop.set_type(condition);
    (*stop.mutable_param())[condition == std::string("target") ? "value" : "most"] = value;
    return Simulate(Config(strategy, solver), {.workers = workers, .jitter = 0, .mtu = 600});
  }
};

TEST_F(SimulatedStop, EndsAfterIterations) {
  const Simulated one = Limited("type: 'hogwild'", "iterations", 7, 1);
  EXPECT_EQ(one.end.iterations, 7);
  EXPECT_CONTAINS(one.end.stop_reason, "iterations at iteration 7: 7 iterations are complete");
  // The others end their iterations.
  const Simulated three = Limited("type: 'hogwild'", "iterations", 7, 3);
  EXPECT_GE(three.end.iterations, 7);
  EXPECT_LE(three.end.iterations, 9);
  EXPECT_EQ(three.distance, 0);
  // And those that step together go on until they merge.
  EXPECT_EQ(Limited(kAllreduce, "iterations", 7, 3).end.iterations, 7);
  EXPECT_EQ(Limited(kLocalSgd, "iterations", 7, 3).end.iterations, 10);
}

TEST_F(SimulatedStop, EndsAfterVirtualSeconds) {
  const Simulated outcome = Limited("type: 'hogwild'", "seconds", 0.095, 1);
  EXPECT_EQ(outcome.end.iterations, 10);
  EXPECT_CONTAINS(outcome.end.stop_reason, "0.095 s of training have passed");
}

TEST_F(SimulatedStop, EndsWhenATestHasReachedItsTarget) {
  const Simulated outcome = Limited("type: 'hogwild'", "target", 0.5, 2);
  EXPECT_LT(outcome.end.iterations, 100'000);
  EXPECT_CONTAINS(outcome.end.stop_reason, "target at iteration ");
}

}  // namespace
}  // namespace millrace::test
