// strategy { type: "gossip" } with solvers on GPUs.
#include <google/protobuf/text_format.h>

#include "strategy/pair_averaging.h"
#include "test/gpu/synchronous_gpus.h"
#include "test/support/chosen_device.h"
#include "test/support/test_thread.h"

namespace millrace::test {
namespace {

constexpr char kEveryThree[] = "sync_condition { type: 'steps' param { key: 'every' value: 3 } }";
constexpr char kDistance[] =
    "sync_condition { type: 'distance' param { key: 'above' value: 0.02 } }";

caffe::SolverParameter GossipFor(int iterations, const std::string& fields) {
  caffe::SolverParameter solver = Workspace::Solver(iterations);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("type: 'gossip' " + fields,
                                                            solver.mutable_strategy()));
  return solver;
}

class GossipOnChosen : public OnChosenDevice {
 protected:
  const std::unique_ptr<Workspace> work_ = WorkWithBatch(4, true);
};

INSTANTIATE_TEST_SUITE_P(Devices, GossipOnChosen, testing::ValuesIn(DeviceChoices()),
                         DeviceChoiceName);

TEST_P(GossipOnChosen, OneGpuTrainsAsACpuDoes) {
  const caffe::SolverParameter solver = GossipFor(22, kEveryThree);
  RunNamed(*work_, "cpu", solver);
  RunNamed(*work_, "gpu", solver, On({&first()}));
  ExpectNear(WeightsOf(*work_, "cpu", 22), WeightsOf(*work_, "gpu", 22), 1e-3f);
}

// Additions of solvers with replicas on two devices, or on one, and two processors, which average
// at the same time: the mean has all of them, and so has each solver once all have averaged with
// all.
TEST_P(GossipOnChosen, TheMeanHasAllProgress) {
  constexpr int64_t kSize = 10'000;
  constexpr int kSolvers = 4, kIterations = 50;
  const SteadyClock clock;
  const auto run = WeightBuffer::CreatePrivate(FlatLayout(kSize));
  std::fill_n(run->data(), kSize, 3.0f);
  DeviceWeights replicas[] = {DeviceWeights(&first(), kSize), DeviceWeights(&other(), kSize)};
  PairTeam team(run.get(), kSolvers, Seed());
  std::vector<PairAveraging*> strategies;
  std::vector<std::unique_ptr<AddingSolver>> solvers;
  for (int i = 0; i < kSolvers; ++i) {
    auto strategy = std::make_unique<PairAveraging>(&team, i, SyncConditions(), &clock,
                                                    i < 2 ? &replicas[i] : nullptr);
    strategies.push_back(strategy.get());
    solvers.push_back(
        std::make_unique<AddingSolver>(std::move(strategy), kSize, static_cast<float>(1 << i)));
  }
  std::vector<TestThread> threads;
  for (auto& solver : solvers) {
    threads.emplace_back([&solver] {
      solver->Iterate(kIterations);
      solver->Finish();
    });
  }
  threads.clear();  // waits for them
  EXPECT_EQ(run->clock().global(), kSolvers * kIterations);
  for (PairAveraging* strategy : strategies) strategy->Flush();
  constexpr float kMean = 3 + kIterations * 15.0f / kSolvers;
  for (int64_t i = 0; i < kSize; ++i) ASSERT_NEAR(run->data()[i], kMean, 1e-3) << i;
  // What a device trains on is what others average.
  for (int i = 0; i < 2; ++i) {
    std::vector<float> own(kSize);
    replicas[i].CopyToHost(own.data());
    EXPECT_EQ(own, std::vector<float>(team.weights(i), team.weights(i) + kSize));
  }
}

TEST_P(GossipOnChosen, LearnsOnTwoGpusBesideACpu) {
  if (const std::string why = WhyNoSecond(); !why.empty()) GTEST_SKIP() << why;
  int runs = 0;
  for (const char* fields : {"", kEveryThree, kDistance}) {
    SCOPED_TRACE(fields);
    const Outcome outcome =
        RunNamed(*work_, StrCat("run", ++runs), Workspace::Tested(GossipFor(401, fields), 200),
                 On({&first(), &second()}, 1));
    EXPECT_EQ(outcome.Losses().size(), 401u);
    // The periodic test and the last one.
    for (const MetricsRow& row : outcome.rows) {
      if (row.has_test() && row.iter() >= 400) {
        EXPECT_GE(row.test().outputs().at("accuracy"), 0.9) << row.iter();
      }
    }
  }
}

class DeviceGossip : public OnFakeGpus {};

INSTANTIATE_TEST_SUITE_P(Gpus, DeviceGossip,
                         testing::Values(Gpus{FakeMode::kAtOnce, 1}, Gpus{FakeMode::kLate, 1},
                                         Gpus{FakeMode::kThread, 1}),
                         NameOfGpus);

TEST_P(DeviceGossip, ResumesExactlyWithOneSolver) {
  caffe::SolverParameter solver = GossipFor(24, kEveryThree);
  solver.set_snapshot(10);
  RunNamed(*work_, "whole", solver, OnGpus());
  TrainOptions options = OnGpus();
  options.snapshot = work_->Snapshot("whole", 10) + ".solverstate";
  RunNamed(*work_, "rest", solver, options);
  EXPECT_TRUE(ModelFile(*work_, "whole", 24) == ModelFile(*work_, "rest", 24));
}

// Copies of the weights to the host. At the end each solver makes one unless it has just averaged.
TEST(DeviceGossipTest, CopiesWeightsOnlyToAverageAndForConditionsThatReadThem) {
  constexpr int64_t kSize = 100;
  constexpr int kIterations = 20;  // of each of two solvers
  const SteadyClock clock;
  const auto copies = [&](const std::string& fields) {
    FakeDevice device;
    const auto run = WeightBuffer::CreatePrivate(FlatLayout(kSize));
    std::fill_n(run->data(), kSize, 3.0f);
    DeviceWeights replicas[] = {DeviceWeights(&device, kSize), DeviceWeights(&device, kSize)};
    PairTeam team(run.get(), 2, Seed());
    const caffe::SolverParameter solver = GossipFor(kIterations, fields);
    std::vector<PairAveraging*> strategies;
    std::vector<std::unique_ptr<AddingSolver>> solvers;
    for (int i = 0; i < 2; ++i) {
      auto strategy = std::make_unique<PairAveraging>(
          &team, i, SyncConditionList(solver.strategy()).Make(), &clock, &replicas[i]);
      strategies.push_back(strategy.get());
      solvers.push_back(std::make_unique<AddingSolver>(std::move(strategy), kSize, 1.0f));
    }
    const uint64_t before = device.memory().downloads();
    for (int n = 0; n < kIterations; ++n) {
      for (const auto& each : solvers) each->Iterate(1);
    }
    for (const auto& each : solvers) each->Finish();
    for (PairAveraging* strategy : strategies) strategy->Flush();
    return device.memory().downloads() - before;
  };
  EXPECT_EQ(copies("sync_condition { type: 'steps' param { key: 'every' value: 1000 } }"), 2u);
  EXPECT_EQ(copies("sync_condition { type: 'distance' param { key: 'above' value: 1000 } }"),
            2u * kIterations);
  EXPECT_EQ(copies(kEveryThree), 2u * (kIterations / 3) + 2u);
}

TEST(DeviceGossipTest, EndsInOrderWhateverCallFails) {
  const auto work = WorkWithBatch(4, true);
  uint64_t calls = 0;
  const auto run = [&](uint64_t fails_at) -> std::string {
    FakeDevice first({.mode = FakeMode::kThread});
    FakeDevice second({.mode = FakeMode::kThread, .ordinal = 1, .fails_at_call = fails_at});
    try {
      const Outcome outcome =
          RunNamed(*work, "run", GossipFor(8, kEveryThree), On({&first, &second}));
      // The call that failed, if any, came when the objects of a complete run ended.
      EXPECT_EQ(outcome.result.iteration, 8);
    } catch (const Error& thrown) {
      return thrown.what();
    }
    calls = second.calls()->count();
    return "";
  };
  EXPECT_EQ(run(UINT64_MAX), "");
  ASSERT_GT(calls, 50u);
  int failed = 0;
  uint64_t step = 1;
  for (uint64_t n = 0; n < calls; n += step, step = 1 + n / 8) {
    SCOPED_TRACE(n);
    const uint64_t all = calls;
    const std::string error = run(n);
    calls = all;
    if (error.empty()) continue;
    ++failed;
    EXPECT_CONTAINS(error, "fake device 1: an unspecified launch failure");
  }
  EXPECT_GT(failed, 8);
}

}  // namespace
}  // namespace millrace::test
