// Runs of nets with batch normalisation, whose statistics are a part of the weights.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "data/data_service.h"
#include "solver/solver.h"
#include "strategy/hogwild.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// The small net with BatchNorm and Scale behind its first inner product, in place.
std::string NormalizedText(const std::string& net, double fraction) {
  const std::string relu = "layer { name: 'relu'";
  std::string text = net;
  return text.insert(text.find(relu),
                     StrCat("layer { name: 'bn' type: 'BatchNorm' bottom: 'hidden' top: 'hidden'\n"
                            "  batch_norm_param { moving_average_fraction: ",
                            fraction,
                            " } }\n"
                            "layer { name: 'scale' type: 'Scale' bottom: 'hidden' top: 'hidden'\n"
                            "  scale_param { bias_term: true } }\n"));
}

std::unique_ptr<Workspace> NormalizedWork(double fraction) {
  auto work = std::make_unique<Workspace>();
  work->WriteNet(NormalizedText(work->Net().Text(), fraction));
  return work;
}

caffe::LayerParameter StatisticsOf(const Workspace& work, const std::string& name,
                                   int64_t iteration) {
  const caffe::NetParameter model = LoadModel(work.Snapshot(name, iteration) + ".caffemodel");
  for (const caffe::LayerParameter& layer : model.layer()) {
    if (layer.name() == "bn") return layer;
  }
  throw Error("no layer 'bn'");
}

std::unique_ptr<WeightBuffer> NewWeights(const SolverConfig& config, DataService* data) {
  BuiltNet net(config.train.param, config.train.source, TrainNetOptions(config, data));
  auto weights = WeightBuffer::CreatePrivate(net.layout());
  net.BindWeights(weights->data());
  net.FillWeights();
  return weights;
}

TEST(BatchNormRun, LearnsAndTestsWithItsStatistics) {
  const auto work = NormalizedWork(0.9);
  for (const int solvers : {1, 3}) {
    const Outcome outcome =
        RunNamed(*work, StrCat("by", solvers), Workspace::Tested(Workspace::Solver(150), 150),
                 WithSolvers(solvers));
    EXPECT_GT(outcome.FinalOutput("accuracy"), 0.9) << solvers;
    EXPECT_LT(outcome.FinalOutput("loss"), 0.5) << solvers;
  }
}

// With a fraction of 1 the weight of the statistics is the number of batches. Neither weight decay
// nor momentum changes it.
TEST(BatchNormRun, CountsEveryBatchOfAllSolversOnce) {
  const auto work = NormalizedWork(1);
  caffe::SolverParameter solver = Workspace::Solver(60);
  solver.set_iter_size(2);
  solver.set_weight_decay(0.1f);
  for (const int solvers : {1, 4}) {
    const std::string name = StrCat("by", solvers);
    RunNamed(*work, name, solver, WithSolvers(solvers));
    EXPECT_EQ(StatisticsOf(*work, name, 60).blobs(2).data(0), 120) << solvers;
  }
}

TEST(BatchNormRun, ResumesWithTheStatisticsOfItsSnapshotBitForBit) {
  const auto work = NormalizedWork(0.9);
  caffe::SolverParameter solver = Workspace::Solver(20);
  solver.set_iter_size(2);
  solver.set_snapshot(9);
  RunNamed(*work, "whole", solver);
  TrainOptions options;
  options.snapshot = work->Snapshot("whole", 9) + ".solverstate";
  RunNamed(*work, "rest", solver, options);
  EXPECT_EQ(ModelFile(*work, "whole", 20), ModelFile(*work, "rest", 20));
  const caffe::LayerParameter early = StatisticsOf(*work, "whole", 9);
  const caffe::LayerParameter late = StatisticsOf(*work, "rest", 20);
  ASSERT_EQ(early.blobs_size(), 3);
  EXPECT_NEAR(early.blobs(2).data(0), (1 - std::pow(0.9, 18)) / 0.1, 1e-4);
  EXPECT_NEAR(late.blobs(2).data(0), (1 - std::pow(0.9, 40)) / 0.1, 1e-4);
}

// Caffe passes once more over training data to display the last loss, after the snapshot and before
// the last test: BatchNorm layers count that batch.
TEST(BatchNormRun, TestsWithTheStatisticsOfTheDisplayedPassAtTheEndAsCaffeDoes) {
  const auto work = NormalizedWork(0.5);
  const auto last_loss = [&](const std::string& name, int display) {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(6), 6);
    solver.set_display(display);
    return RunNamed(*work, name, solver).FinalOutput("loss");
  };
  const double displayed = last_loss("displayed", 3), silent = last_loss("silent", 0);
  EXPECT_NE(displayed, silent);
  EXPECT_EQ(last_loss("other", 4), silent);
  EXPECT_EQ(WeightsOf(*work, "displayed", 6), WeightsOf(*work, "silent", 6));
}

TEST(BatchNormRun, KeepsBatchesOfAFailedIterationOutOfTheStatistics) {
  const Workspace work;
  work.WriteNet(NormalizedText(OverflowingText(work.Net()), 0.9));
  const SolverConfig config = LoadSolverConfig(work.Write("run", Workspace::Solver(3)));
  const LrPolicy policy(config.param);
  DataService data(DataOptions{config.seed});
  const auto weights = NewWeights(config, &data);
  const std::vector<float> before(weights->data(), weights->data() + weights->size());
  HogwildStrategy strategy(weights.get());
  Solver solver(config, policy, &data, &strategy);
  EXPECT_THROW(solver.Step(), NonFiniteLoss);
  EXPECT_EQ(std::vector<float>(weights->data(), weights->data() + weights->size()), before);
}

TEST(BatchNormRun, HoldsTheSolversLockWhileItWritesStatistics) {
  const auto work = NormalizedWork(1);
  const SolverConfig config = LoadSolverConfig(work->Write("run", Workspace::Solver(3)));
  const LrPolicy policy(config.param);
  DataService data(DataOptions{config.seed});
  const auto weights = NewWeights(config, &data);
  HogwildStrategy strategy(weights.get());
  Solver solver(config, policy, &data, &strategy);
  const ParamLayout& layout = solver.net().layout();
  const ParamEntry& count = layout.entries()[layout.Find("bn/2")];
  RangeLock::Exclusive exchange(&weights->locks());
  ASSERT_TRUE(exchange.TryLock(weights->data() + count.offset, 1));
  std::atomic<bool> stepped{false};
  std::thread thread([&] {
    solver.Step();
    stepped = true;
  });
  // The solver cannot pass the range: it waits until the exchange leaves.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(stepped);
  EXPECT_EQ(weights->data()[count.offset], 0);
  exchange.Unlock();
  thread.join();
  EXPECT_EQ(weights->data()[count.offset], 1);
}

}  // namespace
}  // namespace millrace::test
