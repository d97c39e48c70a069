// strategy { type: "local" } with solvers on GPUs, and delay compensation there.
#include "strategy/strategy_plans.h"

#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "base/fnv1a.h"
#include "test/gpu/synchronous_gpus.h"
#include "test/support/chosen_device.h"
#include "test/support/fake_clock.h"
#include "test/support/strategy_parts.h"

namespace millrace::test {
namespace {

constexpr char kSteps[] = "sync_condition { type: 'steps' param { key: 'every' value: 3 } } ";
constexpr char kDistance[] =
    "sync_condition { type: 'distance' param { key: 'above' value: 0.02 } } ";
constexpr char kPeriods[] = "param { key: 'fetch' value: 4 } param { key: 'push' value: 3 } ";
constexpr char kElastic[] = "merge_rule { type: 'easgd' param { key: 'pull' value: 0.3 } } ";
constexpr char kAverage[] = "merge_rule { type: 'average' } ";

caffe::SolverParameter LocalFor(int iterations, const std::string& fields) {
  caffe::SolverParameter solver = Workspace::Solver(iterations);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("type: 'local' " + fields,
                                                            solver.mutable_strategy()));
  return solver;
}

// A name for the runs of a strategy, of one test.
std::string NameOf(const std::string& strategy) { return StrCat("run", Fnv1a(strategy), "_"); }

const std::vector<std::string> kStrategies = {kSteps, std::string(kSteps) + kAverage,
                                              std::string(kSteps) + kElastic, kPeriods,
                                              std::string(kDistance) + kElastic};

// The same strategies, and those of solvers that step together, on fake GPUs and on real ones.
class OneGpu : public OnChosenDevice {
 protected:
  void FollowsACpu(const std::string& name, const caffe::SolverParameter& solver) {
    const Outcome cpu = RunNamed(*work_, name + "cpu", solver);
    const Outcome gpu = RunNamed(*work_, name + "gpu", solver, On({&first()}));
    ExpectNear(WeightsOf(*work_, name + "cpu", 22), WeightsOf(*work_, name + "gpu", 22), 1e-3f);
    const std::map<int64_t, double> expected = cpu.Losses(), losses = gpu.Losses();
    ASSERT_EQ(losses.size(), 22u);
    for (const auto& [iteration, loss] : losses) EXPECT_NEAR(loss, expected.at(iteration), 2e-3);
  }

  const std::unique_ptr<Workspace> work_ = WorkWithBatch(4, true);
};

INSTANTIATE_TEST_SUITE_P(Devices, OneGpu, testing::ValuesIn(DeviceChoices()), DeviceChoiceName);

TEST_P(OneGpu, TrainsOnWeightsOfItsOwnAsACpuDoes) {
  for (const std::string& strategy : kStrategies) {
    SCOPED_TRACE(strategy);
    FollowsACpu(NameOf(strategy), LocalFor(22, strategy));
  }
}

TEST_P(OneGpu, MovesTheCenterAsACpuDoes) {
  for (const std::string rule : {"additive", "average", "outer"}) {
    SCOPED_TRACE(rule);
    FollowsACpu(rule, Merging(Workspace::Solver(22), rule, 4));
  }
  FollowsACpu("easgd", Merging(Workspace::Solver(22), "easgd", 4, {{"pull", 0.2}}));
}

// Nobody else moves the weights between its passes and its update.
TEST_P(OneGpu, AloneHasNoDelayToCompensate) {
  caffe::SolverParameter solver = Workspace::Solver(22);
  solver.mutable_strategy()->set_type("hogwild");
  (*solver.mutable_strategy()->mutable_param())["delay_compensation"] = 10;
  FollowsACpu("alone", solver);
}

class DeviceLocal : public OnFakeGpus {};

INSTANTIATE_TEST_SUITE_P(Gpus, DeviceLocal, testing::ValuesIn(kGpus), NameOfGpus);

TEST_P(DeviceLocal, LearnsWithEachRule) {
  for (const std::string& strategy : kStrategies) {
    SCOPED_TRACE(strategy);
    caffe::SolverParameter solver = Workspace::Tested(LocalFor(400, strategy), 200);
    // The progress of all solvers adds up.
    solver.set_base_lr(solver.base_lr() / static_cast<float>(GetParam().count));
    const Outcome outcome = RunNamed(*work_, NameOf(strategy), solver, OnGpus());
    EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
    EXPECT_EQ(outcome.result.iteration, 400);
  }
}

TEST_P(DeviceLocal, TrainsBesideSolversOnCpus) {
  TrainOptions options = OnGpus();
  options.solvers = 2;
  const caffe::SolverParameter solver =
      Workspace::Tested(LocalFor(400, std::string(kSteps) + kElastic), 200);
  EXPECT_GE(RunNamed(*work_, "run", solver, options).FinalOutput("accuracy"), 0.9);
}

TEST_P(DeviceLocal, ResumesExactlyWithOneSolver) {
  if (GetParam().count > 1) return;
  for (const std::string& strategy : kStrategies) {
    SCOPED_TRACE(strategy);
    caffe::SolverParameter solver = LocalFor(24, strategy);
    solver.set_snapshot(9);
    const std::string whole = NameOf(strategy) + "whole", rest = NameOf(strategy) + "rest";
    RunNamed(*work_, whole, solver, OnGpus());
    TrainOptions options = OnGpus();
    options.snapshot = work_->Snapshot(whole, 9) + ".solverstate";
    RunNamed(*work_, rest, solver, options);
    EXPECT_TRUE(ModelFile(*work_, whole, 24) == ModelFile(*work_, rest, 24));
  }
}

// Many calls of a GPU fail in turn: the run ends with one line that names it, and has saved what
// was merged.
TEST(DeviceLocalTest, EndsInOrderWhateverCallFails) {
  const auto work = WorkWithBatch(4, true);
  uint64_t calls = 0;
  const auto run = [&](const std::string& name, uint64_t fails_at) {
    FakeDevice first({.mode = FakeMode::kThread});
    FakeDevice second({.mode = FakeMode::kThread, .ordinal = 1, .fails_at_call = fails_at});
    std::string error;
    try {
      RunNamed(*work, name, LocalFor(8, std::string(kSteps) + kElastic), On({&first, &second}));
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    calls = second.calls()->count();
    return error;
  };
  ASSERT_EQ(run("whole", UINT64_MAX), "");
  const uint64_t all = calls;
  ASSERT_GT(all, 100u);
  for (uint64_t n = 0, step = 1; n < all; n += step, step = 1 + n / 8) {
    const std::string error = run(StrCat("run", n), n);
    // The number of calls varies: solvers take the iterations that are left.
    if (!error.empty()) {
      EXPECT_CONTAINS(error, "fake device 1: an unspecified launch failure") << n;
    }
  }
}

// What is copied between the device and the host, and when.
class Counted : public DeviceCopy {
 public:
  explicit Counted(std::vector<float> weights) : weights_(std::move(weights)) {}
  MemorySpace& staging() override { return HostMemory(); }
  void Read(float* host) override {
    ++reads_;
    std::copy(weights_.begin(), weights_.end(), host);
  }
  void Write(const float* host) override {
    ++writes_;
    std::copy_n(host, weights_.size(), weights_.begin());
  }

  std::vector<float> weights_;
  int reads_ = 0, writes_ = 0;
};

TEST(DeviceLocalTest, CopiesWeightsOnlyForMergesAndForConditionsThatReadThem) {
  const auto count = [](const std::string& fields, int iterations) {
    std::vector<float> shared = {1, 2, 3};
    Counted device({0, 0, 0});
    LocalMerger merger(
        shared.data(), 3,
        dynamic_cast<const LocalPlan&>(*PlanStrategy(LocalFor(1, fields))).Merger(),
        [](const auto& work) { work(0, 3); }, &device);
    merger.Begin({});
    EXPECT_EQ(device.weights_, shared);
    for (int i = 1; i <= iterations; ++i) {
      device.weights_[1] += 0.001f;
      merger.Complete({.iterations = i});
    }
    merger.Flush({.iterations = iterations});
    EXPECT_NEAR(shared[1], 2 + 0.001 * iterations, 1e-5);
    return std::pair(device.reads_, device.writes_);
  };
  // Merges after 3, 6, 9 and 10 iterations; one copy at the start.
  EXPECT_EQ(count(kSteps, 10), std::pair(4, 5));
  EXPECT_EQ(count("sync_condition { type: 'distance' param { key: 'above' value: 1 } }", 10),
            std::pair(10, 2));
  // Pushes after 3, 6, 9, fetches after 4 and 8, both at the end.
  EXPECT_EQ(count(kPeriods, 10), std::pair(6, 4));
}

// ---- Delay compensation ----

// As DelayCompensation.IsOfAHogwildSolversUpdates has it of the host.
TEST(DeviceDelayCompensation, CorrectsAGradientByWhatOthersHaveMoved) {
  FakeDevice gpu({.mode = FakeMode::kLate});
  const auto host = WeightBuffer::CreatePrivate(FlatLayout(1));
  DeviceWeights replica(&gpu, host->size());
  std::vector<float> values(host->size(), 0);
  const auto set = [&](float value) {
    values[0] = value;
    replica.CopyFromHost(values.data());
  };
  const auto get = [&] {
    replica.CopyToHost(values.data());
    return values[0];
  };
  const auto queue = gpu.MakeQueue(QueuePriority::kNormal);
  caffe::SolverParameter param;
  param.set_type("SGD");
  const auto rule =
      UpdateRuleRegistry::Get().Create(param, {{"w", {1}, 0, 1, 1, 1}}, host->size(), *queue);
  const Buffer gradients(gpu.memory(), host->size() * sizeof(float));
  values[0] = 2;
  gpu.memory().CopyFromHost(gradients.get(), values.data(), gradients.bytes());
  set(1);
  DeviceStrategy strategy(&replica, &host->clock(), nullptr, 0.5f, 1);
  strategy.Prepare(rule.get());
  ASSERT_TRUE(strategy.Claim(10));
  queue->Synchronize();
  set(4);  // another solver
  strategy.Update(0.1f, gradients.get<float>(), rule.get());
  strategy.Complete();
  queue->Synchronize();
  // g + lambda g g (w_now - w_read) = 2 + 0.5 * 4 * 3
  EXPECT_FLOAT_EQ(get(), 4 - 0.1f * 8);
  // Alone, there is nothing to correct.
  ASSERT_TRUE(strategy.Claim(10));
  strategy.Update(0.1f, gradients.get<float>(), rule.get());
  strategy.Complete();
  queue->Synchronize();
  EXPECT_FLOAT_EQ(get(), 4 - 0.1f * 8 - 0.1f * 2);
}

TEST(DeviceDelayCompensation, OfARunLearns) {
  const auto work = WorkWithBatch(4, true);
  FakeDevice gpus[] = {FakeDevice({.mode = FakeMode::kThread}),
                       FakeDevice({.mode = FakeMode::kThread, .ordinal = 1})};
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(300), 150);
  solver.mutable_strategy()->set_type("hogwild");
  (*solver.mutable_strategy()->mutable_param())["delay_compensation"] = 0.04;
  EXPECT_GE(RunNamed(*work, "run", solver, On({&gpus[0], &gpus[1]})).FinalOutput("accuracy"), 0.9);
}

}  // namespace
}  // namespace millrace::test
