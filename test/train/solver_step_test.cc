#include <atomic>
#include <thread>

#include "data/data_service.h"
#include "solver/look_ahead.h"
#include "solver/solver.h"
#include "strategy/hogwild.h"
#include "test/support/fake_clock.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// A solver file with everything that a program's own training loop needs.
struct OwnLoop {
  explicit OwnLoop(const std::string& solver_file)
      : config(LoadSolverConfig(solver_file)),
        policy(config.param),
        data(DataOptions{config.seed}) {}

  std::unique_ptr<WeightBuffer> NewWeights() {
    BuiltNet net(config.train.param, config.train.source, TrainNetOptions(config, &data));
    auto weights = WeightBuffer::CreatePrivate(net.layout());
    net.BindWeights(weights->data());
    net.FillWeights();
    return weights;
  }

  const SolverConfig config;
  const LrPolicy policy;
  DataService data;
};

TEST(Solver, StepsOfAProgramsOwnLoopTrainAsTrainDoes) {
  Workspace work;
  const Outcome whole = RunNamed(work, "whole", Workspace::Solver(7));

  OwnLoop loop(work.Write("steps", Workspace::Solver(7)));
  const auto weights = loop.NewWeights();
  HogwildStrategy strategy(weights.get());
  Solver solver(loop.config, loop.policy, &loop.data, &strategy);
  int64_t steps = 0;
  while (const std::optional<StepResult> step = solver.Step()) {
    EXPECT_EQ(step->iteration, steps++);
    EXPECT_EQ(step->rate, loop.policy.Rate(step->iteration));
    EXPECT_GT(step->loss, 0);
  }
  EXPECT_EQ(steps, 7);
  EXPECT_EQ(weights->clock().global(), 7);
  caffe::NetParameter model;
  solver.net().ToProto(&model, false);
  EXPECT_EQ(WeightsOf(model), WeightsOf(work, "whole", 7));
}

TEST(Solver, LeavesTheWeightsAloneIfItsLossIsNotFinite) {
  Workspace work;
  work.WriteNet(OverflowingText(work.Net()));
  OwnLoop loop(work.Write("run", Workspace::Solver(3)));
  const auto weights = loop.NewWeights();
  const std::vector<float> before(weights->data(), weights->data() + weights->size());
  HogwildStrategy strategy(weights.get());
  Solver solver(loop.config, loop.policy, &loop.data, &strategy);
  EXPECT_THROW(solver.Step(), NonFiniteLoss);
  EXPECT_EQ(std::vector<float>(weights->data(), weights->data() + weights->size()), before);
}

// Keeps the last gradient instead of applying it.
class KeepGradient : public Strategy {
 public:
  explicit KeepGradient(WeightBuffer* weights) : weights_(*weights) {}

  float* weights() override { return weights_.data(); }
  std::optional<int64_t> Claim(int64_t) override { return 0; }
  void Update(float rate, const float* gradients, UpdateRule*) override {
    rate_ = rate;
    kept_.assign(gradients, gradients + weights_.size());
  }
  void Complete() override { ++completed_; }

  float rate_ = 0;
  int completed_ = 0;
  std::vector<float> kept_;

 private:
  WeightBuffer& weights_;
};

TEST(Solver, LeavesTheUpdateToItsStrategy) {
  Workspace work;
  OwnLoop loop(work.Write("run", Workspace::Solver(3)));
  const auto weights = loop.NewWeights();
  const std::vector<float> before(weights->data(), weights->data() + weights->size());
  KeepGradient strategy(weights.get());
  Solver solver(loop.config, loop.policy, &loop.data, &strategy);
  ASSERT_TRUE(solver.Step());
  EXPECT_EQ(strategy.completed_, 1);
  EXPECT_EQ(strategy.rate_, loop.policy.Rate(0));
  EXPECT_EQ(std::vector<float>(weights->data(), weights->data() + weights->size()), before);
  double squares = 0;
  for (const float value : strategy.kept_) squares += static_cast<double>(value) * value;
  EXPECT_GT(squares, 0);
}

TEST(HogwildStrategy, FreesItsSolverAtItsEnd) {
  Workspace work;
  OwnLoop loop(work.Write("run", Workspace::Solver(3)));
  const auto weights = loop.NewWeights();
  {
    HogwildStrategy one(weights.get()), two(weights.get());
    EXPECT_EQ(weights->clock().solvers(), 2);
  }
  EXPECT_EQ(weights->clock().solvers(), 0);
}

// A rule that reports whether its updates hold a lock.
class LockProbe : public UpdateRule {
 public:
  explicit LockProbe(int64_t size) : UpdateRule({{}, {}, size}, 0) {}
  void Apply(float, float look_ahead, const float*, float*) override { look_ahead_ = look_ahead; }
  bool locks() const { return lock() != nullptr; }

  float look_ahead_ = 0;
};

TEST(HogwildStrategy, LocksAgainstExchangesAndSaysHowFarToLookAhead) {
  Workspace work;
  OwnLoop loop(work.Write("run", Workspace::Solver(3)));
  const auto weights = loop.NewWeights();
  LockProbe rule(weights->size());
  float peers = 0;
  HogwildStrategy strategy(weights.get(), [&] { return peers; });
  EXPECT_FALSE(rule.locks());
  strategy.Prepare(&rule);
  EXPECT_TRUE(rule.locks());
  strategy.Update(1, nullptr, &rule);
  EXPECT_EQ(rule.look_ahead_, 0);
  peers = kLookAheadOfMeans;
  strategy.Update(1, nullptr, &rule);
  EXPECT_EQ(rule.look_ahead_, kLookAheadOfMeans);
  HogwildStrategy other(weights.get());  // steps of one process add up
  strategy.Update(1, nullptr, &rule);
  EXPECT_EQ(rule.look_ahead_, kLookAheadOfSums);
}

// Counts what it receives.
class CountingObserver : public RunObserver {
 public:
  void Started(int64_t max_iteration, double images_per_iteration) override {
    max_iteration_ = max_iteration;
    images_ = images_per_iteration;
  }
  void Iterated(int64_t completed, double) override { last_ = completed; }
  void Ended() override { ended_ = true; }

  int64_t max_iteration_ = 0;
  double images_ = 0;
  std::atomic<int64_t> last_{0};
  bool ended_ = false;
};

TEST(Train, TellsItsObserverTheProgress) {
  Workspace work;
  CountingObserver observer;
  TrainOptions options;
  options.observer = &observer;
  RunNamed(work, "run", Workspace::Solver(6), options);
  EXPECT_EQ(observer.max_iteration_, 6);
  EXPECT_EQ(observer.images_, 8);
  EXPECT_EQ(observer.last_, 6);
  EXPECT_TRUE(observer.ended_);
}

TEST(Train, StopsAndSavesAtACommandOfItsProgram) {
  Workspace work;
  RequestedCommands commands;
  CountingObserver observer;
  TrainOptions options;
  options.control = &commands;
  options.observer = &observer;
  std::thread program([&] {
    while (observer.last_ < 3) std::this_thread::yield();
    commands.Stop();
  });
  const Outcome outcome = RunNamed(work, "run", Workspace::Solver(100'000'000), options);
  program.join();
  EXPECT_TRUE(outcome.result.stopped_early);
  EXPECT_GE(outcome.result.iteration, 3);
  EXPECT_EQ(outcome.result.state, work.Snapshot("run", outcome.result.iteration) + ".solverstate");
}

TEST(RequestedCommands, DeliversEachOnceAndAStopFirst) {
  RequestedCommands commands;
  EXPECT_EQ(commands.Next(0), RunCommand::kNone);
  commands.Snapshot();
  commands.Stop();
  commands.Stop();
  EXPECT_EQ(commands.Next(0), RunCommand::kStop);
  EXPECT_EQ(commands.Next(0), RunCommand::kSnapshot);
  EXPECT_EQ(commands.Next(0), RunCommand::kNone);
}

TEST(CommandReader, KeepsTheTimeOfTheFirstStop) {
  RequestedCommands commands;
  FakeClock clock;
  CommandReader reader(&commands, &clock);
  EXPECT_EQ(reader.stopped_ns(), std::nullopt);
  for (int i = 0; i < 2; ++i) {
    clock.AdvanceSeconds(1);
    commands.Stop();
    EXPECT_EQ(reader.Next(0), RunCommand::kStop);
    EXPECT_EQ(reader.stopped_ns(), 1'000'000'000);
  }
}

}  // namespace
}  // namespace millrace::test
