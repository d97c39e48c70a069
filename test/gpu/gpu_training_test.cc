// Complete runs with solvers on GPUs, emulated by fake devices.
#include <cmath>
#include <thread>

#include "data/data_service.h"
#include "millrace/layer.h"
#include "test/gpu/gpu_support.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// A net like LeNet.
std::unique_ptr<Workspace> ConvolutionWork() {
  auto work = std::make_unique<Workspace>();
  SmallNet net = work->Net();
  net.convolution = true;
  work->WriteNet(net);
  return work;
}

TrainOptions OnGpus(std::vector<Device*> gpus, std::optional<int> cpus = {}) {
  TrainOptions options;
  options.gpus = std::move(gpus);
  options.solvers = cpus;
  return options;
}

class GpuTraining : public OnChosenDevice {
 protected:
  const std::unique_ptr<Workspace> work_ = ConvolutionWork();
};

INSTANTIATE_TEST_SUITE_P(Modes, GpuTraining, testing::ValuesIn(DeviceChoices()), DeviceChoiceName);

// One solver alone, so that batches, masks and updates are the same.
TEST_P(GpuTraining, LearnsAsOnAProcessor) {
  const caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(120), 40);
  const Outcome cpu = RunNamed(*work_, "cpu", solver);
  const Outcome gpu = RunNamed(*work_, "gpu", solver, OnGpus({&first()}));
  EXPECT_EQ(gpu.result.iteration, 120);
  EXPECT_EQ(gpu.Tests(), cpu.Tests());
  EXPECT_GE(gpu.FinalOutput("accuracy"), 0.9);
  // A GPU sums in another order, and one test image of 32 may change its class.
  EXPECT_NEAR(gpu.FinalOutput("accuracy"), cpu.FinalOutput("accuracy"), is_fake() ? 0 : 0.04);
  const std::map<int64_t, double> losses = gpu.Losses();
  ASSERT_EQ(losses.size(), 120u);
  for (const auto& [iteration, loss] : cpu.Losses()) {
    EXPECT_NEAR(losses.at(iteration), loss, is_fake() ? 2e-3 : 1e-2) << iteration;
  }
  // The final snapshot is the host's replica, which has everything that the GPU added.
  const std::vector<float> expected = WeightsOf(*work_, "cpu", 120);
  const std::vector<float> actual = WeightsOf(*work_, "gpu", 120);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], is_fake() ? 1e-2 : 5e-2) << i;
}

TEST_P(GpuTraining, TwoGpusDoEveryIterationOnceAndLearn) {
  if (const std::string why = WhyNoSecond(); !why.empty()) GTEST_SKIP() << why;
  const Outcome outcome = RunNamed(*work_, "run", Workspace::Tested(Workspace::Solver(160), 80),
                                   OnGpus({&first(), &second()}));
  EXPECT_EQ(outcome.Losses().size(), 160u);
  EXPECT_EQ(outcome.result.iteration, 160);
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
  EXPECT_EQ(StateOf(*work_, "run", 160).solver_history_size(), 1);
}

TEST_P(GpuTraining, AGpuBesideTwoSolversOnProcessorsLearns) {
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(160), 80);
  solver.set_snapshot(50);
  const Outcome outcome = RunNamed(*work_, "run", solver, OnGpus({&first()}, 2));
  EXPECT_EQ(outcome.Losses().size(), 160u);
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
  for (const int64_t iteration : {50, 100, 150, 160}) {
    EXPECT_EQ(StateOf(*work_, "run", iteration).iter(), iteration);
    for (const float weight : WeightsOf(*work_, "run", iteration)) {
      ASSERT_TRUE(std::isfinite(weight)) << iteration;
    }
  }
  // The metrics of the GPU's link are in the rows.
  const MetricsRow& last = outcome.rows.at(outcome.rows.size() - 2);
  ASSERT_TRUE(last.has_train());
  EXPECT_GT(last.segments().count("gpu0.frames_sent"), 0u);
}

TEST_P(GpuTraining, ContinuesFromASnapshot) {
  caffe::SolverParameter solver = Workspace::Solver(40);
  solver.set_snapshot(20);
  RunNamed(*work_, "whole", solver, OnGpus({&first()}));
  TrainOptions options = OnGpus({&first()});
  options.snapshot = work_->Snapshot("whole", 20) + ".solverstate";
  const Outcome rest = RunNamed(*work_, "rest", solver, options);
  EXPECT_EQ(rest.Losses().size(), 20u);
  const std::vector<float> expected = WeightsOf(*work_, "whole", 40);
  const std::vector<float> actual = WeightsOf(*work_, "rest", 40);
  // The snapshot holds what the host had received when it was taken.
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 0.2) << i;
}

TEST_P(GpuTraining, StopsAtACommandAndSaves) {
  if (const std::string why = WhyNoSecond(); !why.empty()) GTEST_SKIP() << why;
  RequestedCommands commands;
  TrainOptions options = OnGpus({&first(), &second()}, 1);
  options.control = &commands;
  AtIteration stopper(10, [&] { commands.Stop(); });
  options.observer = &stopper;
  const Outcome outcome = RunNamed(*work_, "run", Workspace::Solver(1'000'000), options);
  EXPECT_TRUE(outcome.result.stopped_early);
  EXPECT_EQ(outcome.result.state,
            work_->Snapshot("run", outcome.result.iteration) + ".solverstate");
}

TEST_P(GpuTraining, StartsFromWeightsWhatOthersSaved) {
  RunNamed(*work_, "cpu", Workspace::Solver(60));
  TrainOptions options = OnGpus({&first()});
  options.weights = {work_->Snapshot("cpu", 60) + ".caffemodel"};
  RunNamed(*work_, "gpu", Workspace::Solver(0), options);
  EXPECT_EQ(WeightsOf(*work_, "gpu", 0), WeightsOf(*work_, "cpu", 60));
}

// ---- What cannot be ----

// A layer and an update rule for processors only.
class HostLayer : public Layer {
 public:
  using Layer::Layer;
  Arity arity() const override { return {1, 1, 1, 1}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override { top[0]->ReshapeLike(*bottom[0]); }
  void Forward(const Blobs&, const Blobs&) override {}
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}
};
const RegisterLayer<HostLayer> host_layer("ProcessorOnly", DeviceType::kCpu);

class HostRule : public UpdateRule {
 public:
  explicit HostRule(const UpdateContext& context) : UpdateRule(context, 0) {}
  void Apply(float, float, const float*, float*) override {}
};
const RegisterUpdateRule<HostRule> host_rule("HostOnly", DeviceType::kCpu);

TEST(GpuTrainingTest, NamesALayerWithoutCodeForTheGpu) {
  Workspace work;
  SmallNet net = work.Net();
  net.more_layers = "layer { name: 'odd' type: 'ProcessorOnly' bottom: 'scores' top: 'odd' }\n";
  work.WriteNet(net);
  FakeDevice gpu;
  const std::string error =
      ErrorOf([&] { RunNamed(work, "run", Workspace::Solver(5), OnGpus({&gpu}, 1)); });
  EXPECT_CONTAINS(error, "net.prototxt:");
  EXPECT_CONTAINS(error, "layer 'odd'");
  EXPECT_CONTAINS(error, "a layer of type ProcessorOnly cannot run on fake device 0");
  EXPECT_TRUE(work.FilesWith("run_iter").empty());
}

TEST(GpuTrainingTest, NamesAnUpdateRuleWithoutCodeForTheGpu) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(5);
  solver.set_type("HostOnly");
  FakeDevice gpu;
  const std::string error = ErrorOf([&] { RunNamed(work, "run", solver, OnGpus({&gpu}, 1)); });
  EXPECT_CONTAINS(error, "run.prototxt:");
  EXPECT_CONTAINS(error, "the update rule \"HostOnly\" cannot run on fake device 0");
  EXPECT_TRUE(work.FilesWith("run_iter").empty());
}

TEST(GpuTrainingTest, NamesTheLayerAndTheBytesThatTheMemoryLacks) {
  Workspace work;
  SmallNet net = work.Net();
  net.batch = 64;
  net.hidden = 1000;
  work.WriteNet(net);
  std::set<std::string> layers, wholes;
  bool trained = false;
  for (size_t bytes = 64 << 10; !trained; bytes += 48 << 10) {
    FakeDevice gpu({.memory_bytes = bytes});
    try {
      RunNamed(work, StrCat("run", bytes), Workspace::Solver(2), OnGpus({&gpu}));
      trained = true;
    } catch (const OutOfMemory& error) {
      const std::string line = error.what();
      EXPECT_CONTAINS(line, ": fake device 0: cannot allocate ");
      EXPECT_CONTAINS(line, " bytes");
      const std::string what = line.substr(0, line.find(": fake device 0"));
      if (what.starts_with("layer '")) {
        layers.insert(what.substr(7, what.find('\'', 7) - 7));
      } else {
        wholes.insert(what);
      }
    }
  }
  EXPECT_TRUE(layers.contains("hidden")) << layers.size();
  EXPECT_EQ(wholes, (std::set<std::string>{
                        "the weights", "the history of the update rule",
                        "the gradients of all layers, most of them of layer 'hidden' "
                        "(InnerProduct)",
                        "the activations and their gradients of all layers, most of them of layer "
                        "'hidden' (InnerProduct)",
                        "the link of GPU 0"}));
}

TEST(GpuTrainingTest, NeedsASolver) {
  FakeDevice gpu;
  TrainOptions options = OnGpus({&gpu}, -1);
  EXPECT_EQ(ErrorOf([&] { Train(options); }), "--cpu=-1: expected at least 0 solvers");
}

// ---- Failures ----

class FakeGpuTraining : public testing::TestWithParam<FakeMode> {
 protected:
  FakeDevice first_{{.mode = GetParam()}}, second_{{.mode = GetParam(), .ordinal = 1}};
  const std::unique_ptr<Workspace> work_ = ConvolutionWork();
};

INSTANTIATE_TEST_SUITE_P(Modes, FakeGpuTraining,
                         testing::Values(FakeMode::kAtOnce, FakeMode::kLate, FakeMode::kThread),
                         [](const auto& info) { return ModeName(info.param); });

TEST_P(FakeGpuTraining, AllocatesNothingAfterTheFirstIterations) {
  class Counter : public RunObserver {
   public:
    explicit Counter(FakeDevice* gpu) : gpu_(*gpu) {}
    void Started(int64_t, double) override {}
    void Iterated(int64_t completed, double) override {
      // The link's thread has had time for its first exchanges.
      if (completed == 200 || completed == 300) counts.push_back(Count());
    }
    void Ended() override {}
    std::vector<uint64_t> counts;

   private:
    uint64_t Count() const { return gpu_.memory().allocations() + gpu_.staging().allocations(); }
    FakeDevice& gpu_;
  } counter(&first_);
  TrainOptions options = OnGpus({&first_}, 1);
  options.observer = &counter;
  RunNamed(*work_, "run", Workspace::Solver(320), options);
  ASSERT_EQ(counter.counts.size(), 2u);
  EXPECT_GT(counter.counts[0], 20u);
  EXPECT_EQ(counter.counts[1], counter.counts[0]);
}

// The n-th call of the device fails, for many n over the whole run: each ends the run with one line
// that names the GPU, and nothing is left behind. Once iterations have been made, the weights of
// the host are saved. A call that fails while the objects of a complete run end changes nothing.
TEST_P(FakeGpuTraining, EndsInOrderWhateverCallFails) {
  caffe::SolverParameter solver = Workspace::Solver(6);
  uint64_t calls = 0;
  {
    FakeDevice gpu({.mode = GetParam()});
    RunNamed(*work_, "whole", solver, OnGpus({&gpu}, 1));
    calls = gpu.calls()->count();
  }
  ASSERT_GT(calls, 100u);
  int runs = 0, saved = 0, failed = 0;
  const auto run = [&](uint64_t n) {
    SCOPED_TRACE(n);
    FakeDevice gpu({.mode = GetParam(), .fails_at_call = n});
    // Not named by n, because some n are tried twice.
    const std::string name = StrCat("run", runs++);
    try {
      const Outcome outcome = RunNamed(*work_, name, solver, OnGpus({&gpu}, 1));
      EXPECT_EQ(outcome.result.iteration, 6);
      EXPECT_EQ(work_->FilesWith(name + "_iter_6").size(), 2u);
    } catch (const Error& error) {
      ++failed;
      EXPECT_CONTAINS(error.what(), "fake device 0: an unspecified launch failure");
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      EXPECT_TRUE(gpu.calls()->failed());
    }
    const std::vector<std::string> files = work_->FilesWith(name + "_iter_");
    saved += !files.empty();
    if (!files.empty()) {
      EXPECT_EQ(files.size(), 2u);
    }
  };
  // Steps that grow, because the first calls are the most varied.
  uint64_t step = 1;
  for (uint64_t n = 0; n < calls; n += step, step = 1 + n / 12) run(n);
  EXPECT_GT(failed, 10);
  EXPECT_GT(saved, 0);
  // The last calls of a run, of which each makes somewhat more or fewer.
  for (uint64_t n = calls - 12; n < calls + 4; ++n) run(n);
}

TEST_P(FakeGpuTraining, SavesTheHostsWeightsWhenAGpuFailsMidway) {
  AtIteration breaker(100, [&] { first_.queues()[0]->Fail("it has fallen off the bus"); });
  TrainOptions options = OnGpus({&first_, &second_}, 1);
  options.observer = &breaker;
  const std::string error =
      ErrorOf([&] { RunNamed(*work_, "run", Workspace::Solver(1'000'000), options); });
  EXPECT_EQ(error, "fake device 0: it has fallen off the bus");
  const std::vector<std::string> files = work_->FilesWith("run_iter_");
  ASSERT_EQ(files.size(), 2u);
  const std::string state = *work_ / files[1];
  ASSERT_TRUE(state.ends_with(".solverstate"));
  // A run on processors continues from there.
  TrainOptions rest;
  rest.snapshot = state;
  const int64_t iteration = LoadResumePoint(state).iteration();
  EXPECT_GE(iteration, 90);
  const Outcome outcome = RunNamed(
      *work_, "rest",
      Workspace::Tested(Workspace::Solver(static_cast<int>(iteration) + 2), 1'000'000), rest);
  EXPECT_LT(outcome.result.loss, 0.5 * std::log(4.0));
}

TEST(GpuTrainingTest, CopiesBatchesFromPageableMemoryWhereNoneCanBeLocked) {
  Workspace work;
  caffe::NetParameter param;
  SourceMap source;
  LoadText(work / "net.prototxt", &param, &source);
  // Less than a batch of images: 8 * 64 floats.
  FakeDevice gpu({.staging_bytes = 1000, .copies_pageable = true});
  std::vector<std::vector<float>> batches;
  for (Device* device : {static_cast<Device*>(&gpu), &HostDevice()}) {
    DataService data{DataOptions{}};
    BuiltNetOptions options;
    options.data = &data;
    options.device = device;
    options.state.set_phase(caffe::TRAIN);
    BuiltNet net(param, source, options);
    DeviceWeights weights(device, net.layout().size());
    net.BindWeights(weights.data());
    for (int i = 0; i < 3; ++i) {
      net.Forward();
      net.queue().Synchronize();
      const Blob& images = *net.FindBlob("data");
      batches.emplace_back(images.count());
      images.CopyDataToHost(batches.back().data());
    }
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(batches[i], batches[i + 3]) << i;
  EXPECT_NE(batches[0], batches[1]);
}

}  // namespace
}  // namespace millrace::test
