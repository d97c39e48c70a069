// Statistics of layers, which are a part of the weights, on GPUs: the exchange neither loses nor
// reverses what a layer writes.
#include "data/data_service.h"
#include "solver/solver.h"
#include "test/gpu/gpu_support.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// The small net with BatchNorm behind its first inner product. With a fraction of 1 the last of the
// statistics is the number of batches.
std::unique_ptr<Workspace> CountingWork() {
  auto work = std::make_unique<Workspace>();
  std::string text = work->Net().Text();
  text.insert(text.find("layer { name: 'relu'"),
              "layer { name: 'bn' type: 'BatchNorm' bottom: 'hidden' top: 'hidden'\n"
              "  batch_norm_param { moving_average_fraction: 1 } }\n"
              "layer { name: 'scale' type: 'Scale' bottom: 'hidden' top: 'hidden' }\n");
  work->WriteNet(text);
  return work;
}

// Behind each update, an exchange changes the weights on a queue of its own: it reads them in one
// piece of work and writes them in the next.
class ExchangedStrategy : public DeviceStrategy {
 public:
  ExchangedStrategy(DeviceWeights* weights, IterationClock* clock)
      : DeviceStrategy(weights, clock),
        weights_(*weights),
        queue_(weights->device().MakeQueue(QueuePriority::kLow)),
        copy_(weights->device().memory(), weights->size() * sizeof(float)) {}

  void Update(float rate, const float* gradients, UpdateRule* rule) override {
    DeviceStrategy::Update(rate, gradients, rule);
    weights_.order().Write(*queue_, [&] {
      queue_->Copy(copy_.get(), weights_.data(), copy_.bytes());
      queue_->Copy(weights_.data(), copy_.get(), copy_.bytes());
    });
  }
  // Runs the exchange's wait and its reading.
  void Begin() {
    FakeQueue::Of(*queue_).Advance();
    FakeQueue::Of(*queue_).Advance();
  }
  void Finish() { queue_->Synchronize(); }

 private:
  DeviceWeights& weights_;
  const std::unique_ptr<Queue> queue_;
  const Buffer copy_;
};

TEST(BatchNormOrder, StatisticsBeginAfterTheExchangeThatWasEnqueuedBeforeThem) {
  const auto work = CountingWork();
  const SolverConfig config = LoadSolverConfig(work->Write("run", Workspace::Solver(3)));
  const LrPolicy policy(config.param);
  DataService data(DataOptions{config.seed});
  FakeDevice device({.mode = FakeMode::kLate});
  BuiltNet net(config.train.param, config.train.source, TrainNetOptions(config, &data, &device));
  const ParamLayout layout = net.layout();
  const auto host = WeightBuffer::CreatePrivate(layout);
  DeviceWeights weights(&device, layout.size());
  net.BindWeights(weights.data());
  net.FillWeights();
  net.queue().Synchronize();
  ExchangedStrategy strategy(&weights, &host->clock());
  Solver solver(config, policy, &data, &strategy);
  for (int i = 0; i < 3; ++i) {
    solver.Step();
    strategy.Begin();
    solver.net().queue().Synchronize();
    strategy.Finish();
  }
  weights.CopyToHost(host->data());
  EXPECT_EQ(host->data()[layout.entries()[layout.Find("bn/2")].offset], 3);
}

class BatchNormRuns : public OnChosenDevice {};

TEST_P(BatchNormRuns, CountEveryBatchOfAllSolversOnce) {
  const auto work = CountingWork();
  TrainOptions options;
  options.gpus = {&first()};
  if (WhyNoSecond().empty()) options.gpus.push_back(&second());
  options.solvers = 1;
  RunNamed(*work, "run", Workspace::Solver(120), options);
  const caffe::NetParameter model = LoadModel(work->Snapshot("run", 120) + ".caffemodel");
  for (const caffe::LayerParameter& layer : model.layer()) {
    if (layer.name() == "bn") {
      EXPECT_EQ(layer.blobs(2).data(0), 120);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, BatchNormRuns, testing::ValuesIn(DeviceChoices()),
                         DeviceChoiceName);

}  // namespace
}  // namespace millrace::test
