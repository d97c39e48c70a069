// Solvers on weights of their own: what reaches the shared weights, and when. Independent models of
// Downpour SGD and EASGD; runs on a small problem.
#include "strategy/local.h"

#include <cmath>
#include <memory>
#include <thread>
#include <utility>

#include "base/rng.h"
#include "solver/look_ahead.h"
#include "solver/strategy_plan.h"
#include "test/support/fake_clock.h"
#include "test/support/strategy_parts.h"
#include "test/train/train_support.h"
#include "test/weights/shm_support.h"

namespace millrace::test {
namespace {

// w = w - rate * gradient.
class PlainRule : public UpdateRule {
 public:
  explicit PlainRule(int64_t size) : UpdateRule({{}, {}, size}, 0), size_(size) {}
  void Apply(float rate, float look_ahead, const float* gradients, float* weights) override {
    look_ahead_ = look_ahead;
    for (int64_t i = 0; i < size_; ++i) weights[i] -= rate * gradients[i];
  }

  float look_ahead_ = 0;

 private:
  const int64_t size_;
};

LocalConfig EverySteps(int64_t steps) {
  static const FakeClock clock;
  LocalConfig config;
  if (steps > 0) config.conditions.Add(std::make_unique<Every>(steps));
  config.clock = &clock;
  return config;
}

// One solver of a problem with one weight w and gradient w - goal.
struct Worker {
  Worker(WeightBuffer* shared, LocalConfig config)
      : strategy(shared, std::move(config)), rule(shared->size()), gradients(shared->size()) {
    strategy.Prepare(&rule);
  }
  float w() { return strategy.weights()[0]; }
  void Step(float rate, float goal) {
    gradients[0] = w() - goal;
    ASSERT_TRUE(strategy.Claim(1'000'000));
    strategy.Update(rate, gradients.data(), &rule);
    strategy.Complete();
  }

  LocalStrategy strategy;
  PlainRule rule;
  std::vector<float> gradients;
};

// The order in which three solvers of different speed make their iterations.
std::vector<int> Turns(int count) {
  Rng rng(Seed(), {2});
  std::vector<int> turns;
  for (int i = 0; i < count; ++i) turns.push_back(static_cast<int>(rng.Below(6)) / 2 % 3);
  return turns;
}

// Dean et al., algorithm 7.1, where a fetched replica keeps what it has accrued.
TEST(Local, WithPushAndFetchPeriodsIsDownpour) {
  const auto shared = Weights(1, 1);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 3; ++i) {
    LocalConfig config = EverySteps(0);
    config.push = 2;
    config.fetch = 3;
    workers.push_back(std::make_unique<Worker>(shared.get(), std::move(config)));
  }
  struct Replica {
    double server_seen = 1, accrued = 0;
    int step = 0;
  };
  double server = 1;
  std::vector<Replica> replicas(3);
  const float rate = 0.1f, goals[] = {-1, 0.5f, 2};
  for (const int turn : Turns(60)) {
    Replica& r = replicas[turn];
    EXPECT_NEAR(workers[turn]->w(), r.server_seen + r.accrued, 1e-5);
    const double gradient = r.server_seen + r.accrued - goals[turn];
    r.accrued -= rate * gradient;
    // What the replica has pushed since its last fetch is part of the weights that it works on.
    ++r.step;
    if (r.step % 2 == 0) {
      server += r.accrued;
      r.server_seen += r.accrued;
      r.accrued = 0;
    }
    if (r.step % 3 == 0) r.server_seen = server;
    workers[turn]->Step(rate, goals[turn]);
    EXPECT_NEAR(shared->data()[0], server, 1e-5);
  }
}

// Zhang, Choromanska, LeCun, algorithm 1: x - alpha (x - center), center + alpha (x - center).
TEST(Local, WithTheElasticRuleIsEasgd) {
  const auto shared = Weights(1, 1);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 3; ++i) {
    LocalConfig config = EverySteps(4);
    config.rule = LocalConfig::Rule::kElastic;
    config.pull = 0.3;
    workers.push_back(std::make_unique<Worker>(shared.get(), std::move(config)));
  }
  double center = 1, x[] = {1, 1, 1};
  int steps[] = {0, 0, 0};
  const float rate = 0.1f, goals[] = {-1, 0.5f, 2};
  for (const int turn : Turns(90)) {
    x[turn] -= rate * (x[turn] - goals[turn]);
    if (++steps[turn] % 4 == 0) {
      const double way = 0.3 * (x[turn] - center);
      x[turn] -= way;
      center += way;
    }
    workers[turn]->Step(rate, goals[turn]);
    EXPECT_NEAR(workers[turn]->w(), x[turn], 1e-5);
    EXPECT_NEAR(shared->data()[0], center, 1e-5);
  }
  EXPECT_EQ(workers[0]->rule.look_ahead_, 0);
}

// EAMSGD of the same paper, algorithm 2: v = m v - rate g(x + m v); x = x + v. The solver's weights
// are the look-ahead x + m v, and the elastic step is theirs.
TEST(Local, WithTheElasticRuleAndNesterovMomentumIsEamsgd) {
  const auto shared = Weights(1, 1);
  caffe::SolverParameter param;
  param.set_type("Nesterov");
  param.set_momentum(0.8f);
  struct Solver {
    Solver(WeightBuffer* shared, LocalConfig config, const caffe::SolverParameter& param)
        : strategy(shared, std::move(config)),
          rule(UpdateRuleRegistry::Get().Create(param, {{"w", {1}, 0, 1}}, shared->size())) {}

    LocalStrategy strategy;
    std::unique_ptr<UpdateRule> rule;
    double x = 1, v = 0;
    int steps = 0;
  };
  std::vector<std::unique_ptr<Solver>> solvers;
  for (int i = 0; i < 3; ++i) {
    LocalConfig config = EverySteps(4);
    config.rule = LocalConfig::Rule::kElastic;
    config.pull = 0.3;
    solvers.push_back(std::make_unique<Solver>(shared.get(), std::move(config), param));
  }
  double center = 1;
  constexpr float kRate = 0.05f, kGoals[] = {-1, 0.5f, 2};
  std::vector<float> gradients(shared->size());
  for (const int turn : Turns(120)) {
    Solver& solver = *solvers[turn];
    const double momentum = param.momentum();
    solver.v = momentum * solver.v - kRate * (solver.x + momentum * solver.v - kGoals[turn]);
    solver.x += solver.v;
    if (++solver.steps % 4 == 0) {
      const double way = 0.3 * (solver.x + momentum * solver.v - center);
      solver.x -= way;
      center += way;
    }
    gradients[0] = solver.strategy.weights()[0] - kGoals[turn];
    ASSERT_TRUE(solver.strategy.Claim(1000));
    solver.strategy.Update(kRate, gradients.data(), solver.rule.get());
    solver.strategy.Complete();
    EXPECT_NEAR(solver.strategy.weights()[0], solver.x + momentum * solver.v, 1e-5);
    EXPECT_NEAR(shared->data()[0], center, 1e-5);
  }
}

TEST(Local, WithTheAverageRuleTheSharedWeightsAreTheMeanOfAllSolvers) {
  const auto shared = Weights(1, 1);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 3; ++i) {
    LocalConfig config = EverySteps(2);
    config.rule = LocalConfig::Rule::kAverage;
    config.solvers = 3;
    workers.push_back(std::make_unique<Worker>(shared.get(), std::move(config)));
  }
  const float goals[] = {-1, 0.5f, 4};
  double mean = 0;
  for (const float goal : goals) {
    double w = 1;
    for (int step = 0; step < 2; ++step) w -= 0.1 * (w - goal);
    mean += w / 3;
  }
  for (int i = 0; i < 3; ++i) workers[i]->Step(0.1f, goals[i]);
  EXPECT_EQ(shared->data()[0], 1);
  for (int i = 0; i < 3; ++i) workers[i]->Step(0.1f, goals[i]);
  EXPECT_NEAR(shared->data()[0], mean, 1e-6);
  EXPECT_EQ(workers[2]->w(), shared->data()[0]);  // it was the last to merge
}

TEST(Local, AFetchKeepsProgressThatHasNotBeenPushed) {
  const auto shared = Weights(1, 1);
  LocalConfig config = EverySteps(0);
  config.push = 100;
  config.fetch = 1;
  Worker worker(shared.get(), std::move(config));
  worker.Step(0.5f, 0);  // 1 -> 0.5
  EXPECT_EQ(shared->data()[0], 1);
  shared->data()[0] += 2;  // of another solver
  worker.Step(0, 0);
  EXPECT_EQ(worker.w(), 2.5f);
  worker.strategy.Flush();
  EXPECT_EQ(shared->data()[0], 2.5f);
  worker.strategy.Flush();
  EXPECT_EQ(shared->data()[0], 2.5f);  // once
}

TEST(Local, CountsItsIterationsAndFreesItsSolver) {
  const auto shared = Weights(1, 1);
  {
    Worker worker(shared.get(), EverySteps(3));
    EXPECT_EQ(shared->clock().solvers(), 1);
    for (int i = 0; i < 5; ++i) worker.Step(0.1f, 0);
    EXPECT_EQ(shared->clock().global(), 5);
    EXPECT_EQ(shared->clock().unmerged(), 2);
    worker.Step(0.1f, 0);
    EXPECT_EQ(shared->clock().unmerged(), 0);
    worker.Step(0.1f, 0);
    worker.strategy.Flush();
    EXPECT_EQ(shared->clock().unmerged(), 0);
    worker.Step(0.1f, 0);
    EXPECT_EQ(shared->clock().unmerged(), 1);
    EXPECT_EQ(worker.strategy.lock(), nullptr);  // nobody else writes its weights
  }
  EXPECT_EQ(shared->clock().solvers(), 0);
  EXPECT_EQ(shared->clock().unmerged(), 0);
}

TEST(Local, CountsWhatItHasNotPushed) {
  const auto shared = Weights(1, 1);
  LocalConfig config = EverySteps(0);
  config.push = 3;
  config.fetch = 2;
  Worker worker(shared.get(), std::move(config));
  for (const int unmerged : {1, 2, 0, 1, 2, 0, 1}) {
    worker.Step(0.1f, 0);
    EXPECT_EQ(shared->clock().unmerged(), unmerged);
  }
}

TEST(Local, MomentumLooksAheadOnlyWhereTheProgressOfSeveralAddsUp) {
  const auto shared = Weights(1, 1);
  float peers = 0;
  LocalConfig config = EverySteps(3);
  config.peers = [&] { return peers; };
  Worker worker(shared.get(), std::move(config));
  worker.Step(0.1f, 0);
  EXPECT_EQ(worker.rule.look_ahead_, 0);
  peers = kLookAheadOfMeans;
  worker.Step(0.1f, 0);
  EXPECT_EQ(worker.rule.look_ahead_, kLookAheadOfMeans);
  peers = 0;
  Worker other(shared.get(), EverySteps(3));
  worker.Step(0.1f, 0);
  EXPECT_EQ(worker.rule.look_ahead_, kLookAheadOfSums);
}

// Keeps what a condition is told.
class Watch : public SyncCondition {
 public:
  Watch(std::vector<SyncState>* fires, std::vector<SyncState>* merging)
      : fires_(*fires), merging_(*merging) {}
  bool Fires(const SyncState& state) override {
    fires_.push_back(state);
    moved_ = state.weights[0] != state.base[0];
    EXPECT_TRUE(moved_);
    return state.iterations == 2;
  }
  void Merging(const SyncState& state) override { merging_.push_back(state); }

 private:
  std::vector<SyncState>& fires_;
  std::vector<SyncState>& merging_;
  bool moved_ = false;
};

TEST(Local, TellsItsConditionsWhatHasHappenedSinceTheLastMerge) {
  const auto shared = Weights(1, 1);
  FakeClock clock;
  std::vector<SyncState> fires, merging;
  LocalConfig config;
  config.clock = &clock;
  config.conditions.Add(std::make_unique<Watch>(&fires, &merging));
  Worker worker(shared.get(), std::move(config));
  for (int i = 0; i < 3; ++i) {
    clock.AdvanceSeconds(1);
    shared->clock().TakeRemote(4);  // iterations of others
    worker.Step(0.1f, 0);
  }
  ASSERT_EQ(fires.size(), 3u);
  const int64_t iterations[] = {1, 2, 1}, all[] = {5, 10, 5};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(fires[i].iterations, iterations[i]);
    EXPECT_EQ(fires[i].shared_iterations, all[i]);
    EXPECT_DOUBLE_EQ(fires[i].seconds, static_cast<double>(iterations[i]));
  }
  ASSERT_EQ(merging.size(), 1u);
  EXPECT_EQ(merging[0].iterations, 2);
  worker.strategy.Flush();
  ASSERT_EQ(merging.size(), 2u);
  EXPECT_EQ(merging[1].iterations, 1);
}

// Threads of two processes' handles add whole numbers, which floats hold exactly.
TEST(Local, NothingIsLostBetweenSolversOfSeveralProcesses) {
  constexpr int kWeights = 1000, kSteps = 200, kThreads = 4;
  const ShmName name;
  ParamLayout layout;
  layout.Add("w/0", {kWeights});
  const auto first = WeightBuffer::JoinTraining(name, layout);
  first->Publish();
  const auto second = WeightBuffer::JoinTraining(name, layout);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      LocalStrategy strategy((t % 2 ? second : first).get(), EverySteps(t + 1));
      PlainRule rule(first->size());
      std::vector<float> gradients(first->size(), 0);
      std::fill_n(gradients.begin(), kWeights, -static_cast<float>(t + 1));
      for (int i = 0; i < kSteps; ++i) {
        ASSERT_TRUE(strategy.Claim(1'000'000));
        strategy.Update(1, gradients.data(), &rule);
        strategy.Complete();
      }
      strategy.Flush();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const float sum = kSteps * (1 + 2 + 3 + 4);
  for (int i = 0; i < kWeights; ++i) ASSERT_EQ(first->data()[i], sum) << i;
  EXPECT_EQ(first->clock().global(), kThreads * kSteps);
}

// ---- Solver files ----

std::string Refusal(const caffe::SolverParameter& solver) {
  Workspace work;
  const std::string path = work.Write("run", solver);
  const std::string error = ErrorOf([&] { LoadSolverConfig(path); });
  EXPECT_EQ(error.rfind(path + ":", 0), 0u) << error;
  return error.substr(error.find(": ") + 2);
}

TEST(Local, RefusesWhatItDoesNotKnowInOneLine) {
  const auto refusal = [](const std::string& fields) {
    return Refusal(Local(Workspace::Solver(5), fields));
  };
  EXPECT_EQ(
      refusal(""),
      "strategy.sync_condition: is missing, expected when solvers merge: a sync_condition, or "
      "the parameters fetch and push");
  EXPECT_EQ(refusal("param { key: 'push' value: 2 }"),
            "strategy.param: fetch is missing, expected a period >= 1, or a sync_condition");
  EXPECT_EQ(refusal("param { key: 'pull' value: 2 }"),
            "strategy.param: strategy local has no parameter 'pull', expected one of fetch, push");
  EXPECT_EQ(
      refusal(Steps(2) + "sync_condition { type: 'x' }"),
      "strategy.sync_condition[1].type: unknown sync condition 'x', expected one of adaptive, "
      "distance, furthest, seconds, steps");
  EXPECT_EQ(
      refusal(Steps(2) + "merge_rule { type: 'x' }"),
      "strategy.merge_rule.type: unknown merge rule of the strategy local 'x', expected one of "
      "additive, average, easgd");
  EXPECT_EQ(refusal(Steps(2) + "merge_rule { type: 'easgd' param { key: 'pull' value: 2 } }"),
            "strategy.merge_rule.param: pull is 2, expected a number from 1e-06 to 1");
  EXPECT_EQ(refusal(Steps(2) + "merge_rule { type: 'average' } param { key: 'push' value: 2 }"),
            "strategy.param: fetch and push are for the merge rule additive, expected a "
            "sync_condition for the merge rule average");
}

TEST(Strategy, OfAnUnknownNameOrWithFieldsOfAnotherIsRefused) {
  caffe::SolverParameter solver = Workspace::Solver(5);
  solver.mutable_strategy()->set_type("together");
  EXPECT_EQ(
      Refusal(solver).rfind("strategy.type: unknown strategy 'together', expected one of ", 0), 0u);
  solver.mutable_strategy()->set_type("hogwild");
  solver.mutable_strategy()->add_sync_condition()->set_type("steps");
  EXPECT_EQ(Refusal(solver), "strategy.sync_condition: strategy hogwild has no sync conditions");
  solver.mutable_strategy()->clear_sync_condition();
  solver.mutable_strategy()->mutable_merge_rule()->set_type("easgd");
  EXPECT_EQ(Refusal(solver), "strategy.merge_rule: strategy hogwild has no merge rule");
  solver.mutable_strategy()->clear_merge_rule();
  (*solver.mutable_strategy()->mutable_param())["x"] = 1;
  EXPECT_EQ(Refusal(solver),
            "strategy.param: strategy hogwild has no parameter 'x', expected one of "
            "delay_compensation");
}

TEST(Strategy, AFactoryRefusesWithFileAndLine) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(5);
  solver.mutable_strategy()->set_type("gossip");
  const std::string path = work.Write("run", solver);
  const SolverConfig config = LoadSolverConfig(path);
  StrategyContext context;
  context.config = &config;
  context.in_cluster = true;
  const std::string error = ErrorOf([&] { MakeStrategies(context); });
  EXPECT_EQ(error.rfind(path + ":", 0), 0u);
  EXPECT_NE(error.find("is gossip, whose solvers"), std::string::npos) << error;
  EXPECT_NE(error.find("expected no topology"), std::string::npos) << error;
}

// ---- Runs ----

// The shared weights are those of the only solver whenever it merges, so the period changes
// nothing.
TEST(LocalRun, ASingleSolverTrainsAsHogwildBitForBit) {
  Workspace work;
  RunNamed(work, "hogwild", Workspace::Solver(23));
  RunNamed(work, "local", Local(Workspace::Solver(23), Steps(5)));
  RunNamed(work, "downpour",
           Local(Workspace::Solver(23),
                 "param { key: 'fetch' value: 4 } param { key: 'push' value: 7 }"));
  RunNamed(work, "average",
           Local(Workspace::Solver(23), Steps(6) + "merge_rule { type: 'average' }"));
  const std::string model = ModelFile(work, "hogwild", 23);
  EXPECT_EQ(ModelFile(work, "local", 23), model);
  EXPECT_EQ(ModelFile(work, "downpour", 23), model);
  EXPECT_EQ(ModelFile(work, "average", 23), model);
}

TEST(LocalRun, ASnapshotHoldsWhatItsSolverHasNotMergedAndResumesExactly) {
  for (const std::string& fields :
       {Steps(7), std::string("param { key: 'fetch' value: 4 } param { key: 'push' value: 9 }")}) {
    Workspace work;
    caffe::SolverParameter solver = Local(Workspace::Solver(20), fields);
    solver.set_snapshot(11);
    RunNamed(work, "whole", solver);
    RunNamed(work, "hogwild", Workspace::Solver(11));
    EXPECT_EQ(WeightsOf(work, "whole", 11), WeightsOf(work, "hogwild", 11));
    TrainOptions options;
    options.snapshot = work.Snapshot("whole", 11) + ".solverstate";
    const std::string before = ModelFile(work, "whole", 20);
    RunNamed(work, "resumed", solver, options);
    EXPECT_EQ(ModelFile(work, "resumed", 20), before);
  }
}

class LocalRuns : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(LocalRuns, OfSeveralSolversLearnAndLoseNoIteration) {
  for (const int solvers : {2, 4}) {
    Workspace work;
    const caffe::SolverParameter solver =
        Workspace::Tested(Local(Workspace::Solver(240), GetParam().second), 120);
    const Outcome outcome = RunNamed(work, "run", solver, WithSolvers(solvers));
    EXPECT_EQ(outcome.Losses().size(), 240u);
    EXPECT_EQ(outcome.result.iteration, 240);
    EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9) << solvers << " solvers";
    EXPECT_EQ(StateOf(work, "run", 240).solver_history_size(), solvers - 1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LocalRuns,
    testing::Values(
        std::pair("Additive", "sync_condition { type: 'steps' param { key: 'every' value: 3 } }"),
        std::pair("Downpour", "param { key: 'fetch' value: 3 } param { key: 'push' value: 2 }"),
        std::pair("Easgd",
                  "sync_condition { type: 'steps' param { key: 'every' value: 2 } } "
                  "merge_rule { type: 'easgd' param { key: 'pull' value: 0.3 } }"),
        std::pair("Average",
                  "sync_condition { type: 'steps' param { key: 'every' value: 4 } } "
                  "merge_rule { type: 'average' }"),
        std::pair("Adaptive",
                  "sync_condition { type: 'adaptive' param { key: 'staleness' value: 6 } "
                  "param { key: 'most' value: 8 } }"),
        std::pair("Distance",
                  "sync_condition { type: 'distance' param { key: 'above' value: 0.02 } }")),
    [](const auto& info) { return info.param.first; });

TEST(LocalRun, StopsInTheMiddleOfAPeriodWithoutLosingProgress) {
  Workspace work;
  caffe::SolverParameter solver = Local(Workspace::Solver(100), Steps(1000));
  caffe::PartParameter* const stop = solver.add_stop_condition();
  stop->set_type("iterations");
  (*stop->mutable_param())["most"] = 13;
  const Outcome outcome = RunNamed(work, "run", solver);
  EXPECT_EQ(outcome.result.iteration, 13);
  caffe::SolverParameter plain = Workspace::Solver(100);
  *plain.add_stop_condition() = *stop;
  RunNamed(work, "plain", plain);
  EXPECT_EQ(WeightsOf(work, "run", 13), WeightsOf(work, "plain", 13));
}

TEST(LocalRun, LayersThatKeepStatisticsMergeThemToo) {
  Workspace work;
  SmallNet net = work.Net();
  net.convolution = true;
  work.WriteNet(net);
  caffe::SolverParameter solver = Workspace::Tested(Local(Workspace::Solver(300), Steps(3)), 150);
  solver.set_base_lr(solver.base_lr() / 3);  // the progress of all solvers adds up
  const Outcome outcome = RunNamed(work, "run", solver, WithSolvers(3));
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
}

}  // namespace
}  // namespace millrace::test
