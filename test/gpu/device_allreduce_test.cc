// strategy { type: "allreduce" } with solvers on GPUs: equal replicas, without links.
#include <algorithm>
#include <cmath>
#include <vector>

#include "collective/device_collective.h"
#include "strategy/device_allreduce.h"
#include "test/gpu/synchronous_gpus.h"

namespace millrace::test {
namespace {

caffe::SolverParameter SynchronousFor(int iterations) {
  return Synchronous(Workspace::Solver(iterations));
}

class DeviceAllreduce : public OnFakeGpus {};

INSTANTIATE_TEST_SUITE_P(Gpus, DeviceAllreduce, testing::ValuesIn(kGpus), NameOfGpus);

TEST_P(DeviceAllreduce, TakesTheStepsOfOneSolverWithTheBatchOfAll) {
  caffe::SolverParameter solver = SynchronousFor(40);
  solver.set_clip_gradients(2);
  solver.set_iter_size(2);
  caffe::SolverParameter alone = solver;
  alone.clear_strategy();
  const auto whole = WorkWithBatch(4 * GetParam().count, true);
  const Outcome one = RunNamed(*whole, "run", alone);
  const Outcome all = RunNamed(*work_, "run", solver, OnGpus());
  ExpectNear(WeightsOf(*whole, "run", 40), WeightsOf(*work_, "run", 40), 1e-3f);
  const std::map<int64_t, double> expected = one.Losses(), losses = all.Losses();
  ASSERT_EQ(losses.size(), 40u);
  for (const auto& [iteration, loss] : losses) EXPECT_NEAR(loss, expected.at(iteration), 2e-3);
}

// Buckets of one size or another are summed while the backward pass goes on.
TEST_P(DeviceAllreduce, GivesTheSameWeightsForEverySizeOfBuckets) {
  for (const int kib : {1, 4096}) {
    caffe::SolverParameter solver = SynchronousFor(15);
    (*solver.mutable_strategy()->mutable_param())["bucket_kib"] = kib;
    RunNamed(*work_, StrCat("run", kib), solver, OnGpus());
  }
  EXPECT_TRUE(ModelFile(*work_, "run1", 15) == ModelFile(*work_, "run4096", 15));
}

TEST_P(DeviceAllreduce, SumsWithoutTheAverage) {
  caffe::SolverParameter solver = SynchronousFor(10);
  RunNamed(*work_, "average", solver, OnGpus());
  (*solver.mutable_strategy()->mutable_param())["average"] = 0;
  solver.set_base_lr(solver.base_lr() / static_cast<float>(GetParam().count));
  solver.set_weight_decay(0);
  RunNamed(*work_, "sum", solver, OnGpus());
  solver = SynchronousFor(10);
  solver.set_weight_decay(0);
  RunNamed(*work_, "average", solver, OnGpus());
  ExpectNear(WeightsOf(*work_, "average", 10), WeightsOf(*work_, "sum", 10), 1e-4f);
}

TEST_P(DeviceAllreduce, ResumesExactly) {
  caffe::SolverParameter solver = SynchronousFor(24);
  solver.set_snapshot(9);
  RunNamed(*work_, "whole", solver, OnGpus());
  EXPECT_EQ(StateOf(*work_, "whole", 9).solver_history_size(), 0);
  TrainOptions options = OnGpus();
  options.snapshot = work_->Snapshot("whole", 9) + ".solverstate";
  RunNamed(*work_, "rest", solver, options);
  EXPECT_TRUE(ModelFile(*work_, "whole", 24) == ModelFile(*work_, "rest", 24));
}

TEST_P(DeviceAllreduce, TestsAndSavesWhatTheGpusHaveLearned) {
  caffe::SolverParameter solver = Workspace::Tested(SynchronousFor(120), 60);
  solver.set_snapshot(50);
  const Outcome outcome = RunNamed(*work_, "run", solver, OnGpus());
  EXPECT_EQ(outcome.Tests(), (std::vector<int64_t>{0, 60, 120}));
  EXPECT_EQ(outcome.result.iteration, 120);
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
  for (const int iteration : {50, 100, 120}) {
    EXPECT_EQ(StateOf(*work_, "run", iteration).iter(), iteration);
  }
  EXPECT_NE(WeightsOf(*work_, "run", 50), WeightsOf(*work_, "run", 100));
}

TEST_P(DeviceAllreduce, AStopEndsAllSolversAfterTheSameIteration) {
  RequestedCommands commands;
  AtIteration stopper(5, [&] { commands.Stop(); });
  TrainOptions options = OnGpus();
  options.control = &commands;
  options.observer = &stopper;
  const Outcome outcome = RunNamed(*work_, "run", SynchronousFor(1'000'000), options);
  EXPECT_TRUE(outcome.result.stopped_early);
  const int64_t iteration = outcome.result.iteration;
  EXPECT_EQ(outcome.Losses().rbegin()->first, iteration - 1);
  if (iteration > 5000) return;
  RunNamed(*work_, "again", SynchronousFor(static_cast<int>(iteration)), OnGpus());
  EXPECT_TRUE(ModelFile(*work_, "run", iteration) == ModelFile(*work_, "again", iteration));
}

TEST_P(DeviceAllreduce, SynchronizedBatchNormTakesTheBatchesOfAllGpusAsOne) {
  Workspace whole, parts;
  WriteNormalized(whole, 4 * GetParam().count, "");
  WriteNormalized(parts, 4, "synchronized: true");
  RunNamed(whole, "run", Workspace::Solver(25));
  RunNamed(parts, "run", SynchronousFor(25), OnGpus());
  // Including the statistics.
  ExpectNear(WeightsOf(whole, "run", 25), WeightsOf(parts, "run", 25), 1e-3f);
}

// ---- Failures ----

// The last of 41 labels is not a class of the net; image 40 has it. The others have sums on
// their queues that would wait for it.
TEST(DeviceAllreduceTest, TheErrorOfOneSolverEndsTheOthersAndNamesIt) {
  Images images;
  images.classes = 41;
  Workspace work(images);
  SmallNet net = work.Net();
  net.classes = 40;
  work.WriteNet(net);
  FakeDevice gpus[] = {FakeDevice({.mode = FakeMode::kThread}),
                       FakeDevice({.mode = FakeMode::kThread, .ordinal = 1}),
                       FakeDevice({.mode = FakeMode::kThread, .ordinal = 2})};
  const std::string error = ErrorOf([&] {
    RunNamed(work, "run", SynchronousFor(1000), On({&gpus[0], &gpus[1], &gpus[2]}));
  });
  EXPECT_EQ(error.find("solver "), 0u) << error;
  EXPECT_CONTAINS(error, "layer 'loss'");
}

class NoRule : public UpdateRule {
 public:
  explicit NoRule(Queue* queue) : UpdateRule({{}, {}, 0, queue}, 0) {}
  void Apply(float, float, const float*, float*) override {}
};

// The sums wait for the second solver, which never comes. The first one fails, and then frees its
// gradients: no sum may use them any more.
TEST(DeviceAllreduceTest, NoSumIsLeftOnceASolverHasFailed) {
  constexpr int kFloats = 4096;
  FakeDevice gpus[] = {FakeDevice({.mode = FakeMode::kThread}),
                       FakeDevice({.mode = FakeMode::kThread, .ordinal = 1})};
  ParamLayout layout;
  layout.Add("w/0", {kFloats});
  const auto weights = WeightBuffer::CreatePrivate(layout);
  DeviceWeights first(&gpus[0], weights->size()), second(&gpus[1], weights->size());
  DeviceTeam team(std::make_shared<AllreduceTeam>(weights.get(), 2, nullptr,
                                                  AllreduceSettings{.bucket = kFloats / 8}),
                  {&first, &second}, nullptr);
  const auto compute = gpus[0].MakeQueue(QueuePriority::kNormal);
  NoRule rule(compute.get());
  DeviceAllreduceStrategy strategy(&team, 0);
  const FakeQueue& sums = gpus[0].last_queue();
  strategy.Prepare(&rule);
  ASSERT_TRUE(strategy.Claim(1));
  {
    const Buffer gradients(gpus[0].memory(), weights->size() * sizeof(float));
    strategy.OnGradients(gradients.get<float>(), 0);
    EXPECT_GE(sums.enqueued() - sums.run(), 8u);
    strategy.Fail(std::make_exception_ptr(Error("the other solver has failed")));
    EXPECT_EQ(sums.run(), sums.enqueued());
  }
}

// Many calls of the second of two GPUs fail in turn: the run always ends with one line that names
// the solver and the GPU.
TEST(DeviceAllreduceTest, EndsInOrderWhateverCallFails) {
  const auto work = WorkWithBatch(4, true);
  uint64_t calls = 0;
  const auto run = [&](const std::string& name, uint64_t fails_at) {
    FakeDevice first({.mode = FakeMode::kThread});
    FakeDevice second({.mode = FakeMode::kThread, .ordinal = 1, .fails_at_call = fails_at});
    std::string error;
    try {
      RunNamed(*work, name, SynchronousFor(4), On({&first, &second}));
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
    if (error.empty()) {
      // The number of calls varies. Only the last ones, which free what the run had, cannot throw.
      EXPECT_LT(calls, n + 20);
    } else {
      EXPECT_CONTAINS(error, "fake device 1: an unspecified launch failure") << n;
    }
  }
}

TEST(DeviceAllreduceTest, RefusesAMixtureOfCpusAndGpus) {
  Workspace work;
  FakeDevice gpu;
  EXPECT_CONTAINS(ErrorOf([&] { RunNamed(work, "mixed", SynchronousFor(5), On({&gpu}, 2)); }),
                  "expected GPUs or CPUs, not 1 solvers on GPUs and 2 on CPUs");
}

TEST(DeviceAllreduceTest, ABuildWithoutSumsBetweenDevicesSaysSo) {
  Device* const host = &HostDevice();
  EXPECT_EQ(ErrorOf([&] { MakeDeviceGroup(std::span(&host, 1), nullptr); }),
            "this program cannot sum between devices of type cpu");
}

}  // namespace
}  // namespace millrace::test
