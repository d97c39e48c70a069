#include <algorithm>
#include <atomic>
#include <thread>

#include "base/threads/range_lock.h"
#include "test/nn/channel_reference.h"
#include "test/nn/layer_runner.h"
#include "test/nn/net_support.h"
#include "test/support/fake_device.h"

namespace millrace::test {
namespace {

using reference::Channels;

std::string BatchNormText(const std::string& param = "") {
  return StrCat("type: 'BatchNorm' batch_norm_param { ", param, " }");
}

Array Deviations(const Array& variances, double eps) {
  Array deviations;
  for (const double variance : variances) deviations.push_back(std::sqrt(variance + eps));
  return deviations;
}

TEST(BatchNormLayer, NormalizesByTheBatchInEveryMemoryOrder) {
  Rng rng(Seed(), {1});
  for (const Shape& shape : {Shape{4, 16, 3, 5}, Shape{3, 72, 2, 2}, Shape{2, 3, 40, 40},
                             Shape{2, 16, 40, 30}, Shape{5, 7}, Shape{4, 3, 6}, Shape{9}}) {
    const bool single = shape.size() == 1;
    const Channels of{shape[0], single ? 1 : shape[1],
                      single ? 1 : ShapeCount(shape) / shape[0] / shape[1]};
    const Array x = Uniform(of.count(), 1, 3, &rng), dy = Uniform(of.count(), -1, 1, &rng);
    const Array deviations = Deviations(of.Variances(x), 1e-5);
    const Array y = of.Normalized(x, of.Means(x), deviations);
    const Array dx = of.NormalizedBackward(x, deviations, dy);
    ForEachLayout(BatchNormText(), shape, x, [&](LayerRunner& runner) {
      EXPECT_EQ(Diff(y, runner.Output(), 3e-6), "");
      EXPECT_EQ(runner.top().layout(), runner.bottom().layout());
      runner.Backward(dy);
      EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 3e-6), "");
    });
  }
}

TEST(BatchNormLayer, AcceptsEveryMemoryOrder) {
  EXPECT_EQ(ForEachLayout(BatchNormText(), {1, 16, 1, 2}, Array(32, 1), [](LayerRunner&) {}).size(),
            4u);
}

TEST(BatchNormLayer, IsExactForAMeanFarFromZero) {
  Rng rng(Seed(), {2});
  const Channels of{4, 8, 36};
  const Array x = Uniform(of.count(), 1000, 1001, &rng);
  ForEachLayout(BatchNormText("eps: 0"), {4, 8, 6, 6}, x, [&](LayerRunner& runner) {
    EXPECT_EQ(
        Diff(of.Normalized(x, of.Means(x), Deviations(of.Variances(x), 0)), runner.Output(), 2e-4),
        "");
  });
}

TEST(BatchNormLayer, GradientsAreRightInPlaceAndNot) {
  Rng rng(Seed(), {3});
  for (const bool in_place : {false, true}) {
    for (const char* param : {"", "use_global_stats: true"}) {
      for (const Layout order : {Layout::kPlain, Layout::kNhwc, Layout::kBlocked8}) {
        SCOPED_TRACE(StrCat(param, in_place, LayoutName(order)));
        LayerRunner runner(BatchNormText(param));
        runner.AddBottom({3, 8, 2, 2}, Uniform(96, -2, 2, &rng), order);
        in_place ? runner.SetUpInPlace() : runner.SetUp();
        for (Param& each : runner.layer().params()) each.wanted = false;  // as the net sets it
        SetData(Uniform(8, -1, 1, &rng), &runner.param(0));
        SetData(Uniform(8, 1, 2, &rng), &runner.param(1));
        SetData({2}, &runner.param(2));
        runner.Forward();
        EXPECT_EQ(test::CheckGradients(&runner.layer(), runner.bottoms(), runner.tops(), {}), "");
      }
    }
  }
}

TEST(BatchNormLayer, NormalizesByItsStatisticsInTests) {
  Rng rng(Seed(), {4});
  const Channels of{2, 16, 15};
  const Array x = Uniform(of.count(), -1, 3, &rng), dy = Uniform(of.count(), -1, 1, &rng);
  const Array sums = Uniform(16, -4, 4, &rng), squares = Uniform(16, 0, 4, &rng);
  Array mean, variance;
  for (int c = 0; c < 16; ++c) mean.push_back(sums[c] / 4), variance.push_back(squares[c] / 4);
  const Array deviations = Deviations(variance, 0.125);
  Array dx;
  for (int64_t i = 0; i < of.count(); ++i) dx.push_back(dy[i] / deviations[of.Of(i)]);
  for (const Layout order : kLayouts) {
    for (const bool in_place : {false, true}) {
      LayerRunner runner(BatchNormText("eps: 0.125"), caffe::TEST);
      runner.AddBottom({2, 16, 3, 5}, x, order);
      in_place ? runner.SetUpInPlace() : runner.SetUp();
      SetData(sums, &runner.param(0));
      SetData(squares, &runner.param(1));
      SetData({4}, &runner.param(2));
      EXPECT_EQ(Diff(of.Normalized(x, mean, deviations), runner.Output(), 2e-6), "");
      runner.Backward(dy);
      EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 2e-6), "");
      runner.layer().EndIteration();
      EXPECT_EQ(Diff(sums, GetData(runner.param(0))), "");
      EXPECT_EQ(Diff({4}, GetData(runner.param(2))), "");
    }
  }
}

TEST(BatchNormLayer, HasMeanAndVarianceZeroBeforeItsFirstBatch) {
  LayerRunner runner(BatchNormText("eps: 0.25"), caffe::TEST);
  runner.AddBottom({1, 2}, {1, -3});
  runner.SetUp();
  EXPECT_EQ(Diff({2, -6}, runner.Output()), "");
}

// The blobs after each of several iterations of `passes` batches, by Caffe's recursion.
TEST(BatchNormLayer, TakesEveryBatchIntoItsMovingAverages) {
  Rng rng(Seed(), {5});
  const Channels of{3, 8, 4};
  for (const double fraction : {0.999, 0.5, 1.0, 0.0}) {
    for (const int passes : {1, 3}) {
      LayerRunner runner(BatchNormText(StrCat("moving_average_fraction: ", fraction)));
      runner.AddBottom({3, 8, 2, 2}, Array(of.count(), 0), Layout::kBlocked8);
      runner.SetUp();
      EXPECT_EQ(runner.param(0).shape(), (Shape{8}));
      EXPECT_EQ(runner.param(1).shape(), (Shape{8}));
      EXPECT_EQ(runner.param(2).shape(), (Shape{1}));
      Array mean(8, 0), variance(8, 0);
      double weight = 0;
      const auto f = static_cast<double>(static_cast<float>(fraction));
      for (int iteration = 0; iteration < 4; ++iteration) {
        const Array before = GetData(runner.param(0));
        for (int pass = 0; pass < passes; ++pass) {
          const Array x = Uniform(of.count(), -1, 2, &rng);
          SetData(x, &runner.bottom());
          runner.Forward();
          const Array means = of.Means(x), variances = of.Variances(x);
          for (int c = 0; c < 8; ++c) {
            mean[c] = f * mean[c] + means[c];
            variance[c] = f * variance[c] + variances[c] * 12 / 11;
          }
          weight = f * weight + 1;
        }
        EXPECT_EQ(GetData(runner.param(0)), before) << "written before the end of the iteration";
        runner.layer().EndIteration();
        EXPECT_EQ(Diff(mean, GetData(runner.param(0)), 1e-6), "");
        EXPECT_EQ(Diff(variance, GetData(runner.param(1)), 1e-6), "");
        EXPECT_EQ(Diff({weight}, GetData(runner.param(2)), 1e-6), "");
      }
    }
  }
}

TEST(BatchNormLayer, DividesByOneForASingleValue) {
  LayerRunner runner(BatchNormText());
  runner.AddBottom({1, 2}, {3, 5});
  runner.SetUp();
  runner.Forward();
  runner.layer().EndIteration();
  EXPECT_EQ(Diff({3, 5}, GetData(runner.param(0))), "");
  EXPECT_EQ(Diff({0, 0}, GetData(runner.param(1))), "");
}

TEST(BatchNormLayer, ChangesNothingWithGlobalStatisticsOrInTests) {
  for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
    LayerRunner runner(
        BatchNormText(phase == caffe::TRAIN ? "use_global_stats: true" : "use_global_stats: false"),
        phase);
    runner.AddBottom({2, 2}, {1, 2, 3, 4});
    runner.SetUp();
    SetData({1, 2}, &runner.param(0));
    SetData({1}, &runner.param(2));
    runner.Forward();
    runner.layer().EndIteration();
    EXPECT_EQ(Diff({1, 2}, GetData(runner.param(0))), "");
    EXPECT_EQ(Diff({0, 0}, GetData(runner.param(1))), "");
    EXPECT_EQ(Diff({1}, GetData(runner.param(2))), "");
  }
}

TEST(BatchNormLayer, FollowsABottomThatGrows) {
  Rng rng(Seed(), {6});
  LayerRunner runner(BatchNormText());
  runner.AddBottom({2, 3}, Array(6, 1));
  runner.SetUpInPlace();
  const Channels of{20, 3, 7};
  const Array x = Uniform(of.count(), 0, 1, &rng), dy = Uniform(of.count(), -1, 1, &rng);
  runner.Reshape({20, 3, 7}, x);
  const Array deviations = Deviations(of.Variances(x), 1e-5);
  EXPECT_EQ(Diff(of.Normalized(x, of.Means(x), deviations), runner.Output(), 3e-6), "");
  runner.Backward(dy);
  EXPECT_EQ(Diff(of.NormalizedBackward(x, deviations, dy), GetDiff(runner.bottom()), 1e-5), "");
  EXPECT_CONTAINS(ErrorOf([&] { runner.Reshape({3, 2}, Array(6, 1)); }), "expected 3 channels");
}

TEST(BatchNormLayer, RefusesBadSettings) {
  const auto error = [](const std::string& text) {
    LayerRunner runner(text);
    runner.AddBottom({2, 3}, Array(6, 1));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_EQ(error(BatchNormText("eps: -1")), "-1 given, expected at least 0");
  EXPECT_EQ(error(BatchNormText("moving_average_fraction: 1.5")), "1.5 given, expected 0 to 1");
  EXPECT_EQ(error(BatchNormText() + " param { lr_mult: 0 } param { lr_mult: 1 }"),
            "1 given, expected 0: the statistics have no gradient");
  EXPECT_EQ(error(BatchNormText() + " param { decay_mult: 0 }"),
            "1 given, expected 0: the statistics have no gradient");
}

// ---- In nets ----------------------------------------------------------------

const char* const kBlock =
    "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 3 dim: 6 dim: 6 } "
    "} }"
    "layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 4 } } }"
    "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'c' convolution_param {"
    "  num_output: 16 kernel_size: 3 bias_term: false weight_filler { type: 'xavier' } } }"
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' }"
    "layer { name: 'scale' type: 'Scale' bottom: 'c' top: 'c' scale_param { bias_term: true } }"
    "layer { name: 'relu' type: 'ReLU' bottom: 'c' top: 'c' }"
    "layer { name: 'next' type: 'Convolution' bottom: 'c' top: 'd' convolution_param {"
    "  num_output: 16 kernel_size: 3 weight_filler { type: 'xavier' } } }"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'd' top: 'y' inner_product_param {"
    "  num_output: 5 weight_filler { type: 'xavier' } } }"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'l' }";

TEST(BatchNormInANet, HasStatisticsWithoutGradientsThatAreSaved) {
  TestNet net(kBlock);
  for (int i = 0; i < 3; ++i) {
    const auto& params = net->params();
    const auto found = std::find_if(params.begin(), params.end(), [&](const NetParam& each) {
      return each.display_name == StrCat("bn/", i);
    });
    ASSERT_NE(found, params.end());
    EXPECT_EQ(found->lr_mult, 0);
    EXPECT_FALSE(found->owner->wanted);
  }
  FillRandom(net->FindBlob("x"), 1);
  FillRandom(net->FindBlob("label"), 2, 5);
  net.Pass();
  EXPECT_EQ(net.Gradient("bn/0"), std::vector<float>(16, 0));
  EXPECT_EQ(net.Weights("bn/2"), std::vector<float>{0});
  net->EndIteration();
  EXPECT_EQ(net.Weights("bn/2"), std::vector<float>{1});
  caffe::NetParameter saved;
  net->ToProto(&saved, false);
  TestNet other(kBlock);
  other->CopyWeightsFrom(saved, "saved");
  EXPECT_EQ(other.Weights("bn/0"), net.Weights("bn/0"));
  EXPECT_EQ(other.Weights("bn/1"), net.Weights("bn/1"));
  EXPECT_EQ(other.Weights("bn/2"), net.Weights("bn/2"));
  for (const caffe::LayerParameter& layer : saved.layer()) {
    if (layer.name() != "bn") continue;
    ASSERT_EQ(layer.param_size(), 3);
    EXPECT_EQ(layer.param(2).lr_mult(), 0);
    EXPECT_EQ(layer.blobs(2).shape().dim_size(), 1);
  }
}

TEST(BatchNormInANet, ConvertsNoMemoryOrderBetweenConvolutions) {
  for (const Layout layout : kLayouts) {
    BuiltNetOptions options = InPhase(caffe::TRAIN);
    options.layout = layout;
    TestNet net(kBlock, options);
    // Reorders of the input, and before the inner product.
    EXPECT_LE(net.Reorders(), 2) << LayoutName(layout);
    EXPECT_EQ(net->FindBlob("c")->layout(), layout);
  }
}

TEST(BatchNormInANet, TakesBatchesIntoItsStatisticsOnAnyDeviceAsOnTheHost) {
  for (const FakeMode mode : {FakeMode::kAtOnce, FakeMode::kLate, FakeMode::kThread}) {
    FakeDevice device({.mode = mode});
    std::vector<std::vector<float>> statistics;
    for (Device* each : {static_cast<Device*>(&HostDevice()), static_cast<Device*>(&device)}) {
      caffe::NetParameter param;
      SourceMap source;
      ParseText(kBlock, "net.prototxt", &param, &source);
      BuiltNetOptions options = InPhase(caffe::TRAIN);
      options.device = each;
      options.layout = Layout::kPlain;
      BuiltNet net(param, source, options);
      const size_t bytes = net.layout().size() * sizeof(float);
      Buffer weights(each->memory(), bytes);
      each->memory().Fill(weights.get(), 0, bytes);
      net.BindWeights(weights.get<float>());
      net.FillWeights();
      for (int iteration = 0; iteration < 3; ++iteration) {
        for (int pass = 0; pass < 2; ++pass) {
          net.queue().Synchronize();
          Blob x(net.FindBlob("x")->shape());
          FillRandom(&x, 2 * iteration + pass);
          net.FindBlob("x")->CopyDataFromHost(x.data());
          net.Forward();
        }
        net.EndIteration();
      }
      net.queue().Synchronize();
      statistics.emplace_back();
      for (const Param& statistic : net.FindLayer("bn")->params()) {
        std::vector<float> values(statistic.blob->count());
        statistic.blob->CopyDataToHost(values.data());
        statistics.back().insert(statistics.back().end(), values.begin(), values.end());
      }
    }
    ASSERT_EQ(statistics[0].size(), 33u);
    EXPECT_NEAR(statistics[0].back(), 5.985, 1e-3);
    for (size_t i = 0; i < statistics[0].size(); ++i) {
      EXPECT_NEAR(statistics[1][i], statistics[0][i], 1e-5) << i;
    }
  }
}

// ---- Several writers --------------------------------------------------------

// Layers of several solvers that write the same three arrays, laid out as a net's.
class Writers {
 public:
  static constexpr int kSolvers = 2, kChannels = 16;
  static constexpr int64_t kSize = 3 * 16;

  Writers() : memory_(kSize + 16, 0), lock_(weights()) {}

  float* weights() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (64 - address % 64) % 64 / sizeof(float);
  }
  RangeLock* lock() { return &lock_; }

  // Runs `iterations` on each of the solvers, whose batches have the mean 1 and the unbiased
  // variance 2 in every channel, while `meanwhile` runs here. It is told when all have ended.
  template <typename Meanwhile>
  void Run(const std::string& param, int iterations, Meanwhile meanwhile) {
    std::atomic<int> running{kSolvers};
    std::vector<std::thread> threads;
    for (int solver = 0; solver < kSolvers; ++solver) {
      threads.emplace_back([&] {
        UpdateLock holder(&lock_);
        UpdateLock* holds = &holder;
        LayerRunner runner(BatchNormText(param));
        runner.context().update_lock = &holds;
        Array x(2 * kChannels, 0);
        std::fill_n(x.begin() + kChannels, kChannels, 2);
        runner.AddBottom({2, kChannels}, x);
        runner.SetUp();
        for (int i = 0; i < 3; ++i) runner.param(i).BindData(weights() + 16 * i);
        for (int iteration = 0; iteration < iterations; ++iteration) {
          runner.Forward();
          runner.layer().EndIteration();
        }
        --running;
      });
    }
    while (running > 0) meanwhile();
    for (std::thread& each : threads) each.join();
  }

 private:
  std::vector<float> memory_;
  RangeLock lock_;
};

TEST(BatchNormStatistics, LoseNoBatchOfSeveralSolvers) {
  Writers writers;
  constexpr int kIterations = 50000;
  writers.Run("moving_average_fraction: 1", kIterations, [] { std::this_thread::yield(); });
  const float all = Writers::kSolvers * kIterations;
  for (int c = 0; c < Writers::kChannels; ++c) {
    EXPECT_EQ(writers.weights()[c], all);
    EXPECT_EQ(writers.weights()[16 + c], 2 * all);
  }
  EXPECT_EQ(writers.weights()[32], all);
}

// An exchange merges what other machines have added: by additive merging, in plain loads and stores
// under its exclusive lock.
TEST(BatchNormStatistics, LoseAndReverseNothingThatAnExchangeBrings) {
  Writers writers;
  constexpr int kIterations = 50000;
  RangeLock::Exclusive exchange(writers.lock());
  int64_t merged = 0, refused = 0;
  writers.Run("moving_average_fraction: 1", kIterations, [&] {
    if (!exchange.TryLock(writers.weights(), Writers::kSize)) {
      ++refused;
      return;
    }
    for (int64_t i = 0; i < Writers::kSize; ++i) {
      const float remote = i < 16 ? 3 : i < 32 ? 6 : 3;
      volatile float* const weight = writers.weights() + i;
      *weight = *weight + remote;
    }
    exchange.Unlock();
    ++merged;
    std::this_thread::yield();
  });
  EXPECT_GT(merged, 0) << refused;
  const auto all = static_cast<float>(Writers::kSolvers * kIterations + 3 * merged);
  ASSERT_LT(2 * all, 1 << 24) << "floats are not exact";
  for (int c = 0; c < Writers::kChannels; ++c) {
    EXPECT_EQ(writers.weights()[c], all);
    EXPECT_EQ(writers.weights()[16 + c], 2 * all);
  }
  EXPECT_EQ(writers.weights()[32], all);
}

TEST(BatchNormStatistics, StayAveragesWithSeveralSolvers) {
  Writers writers;
  writers.Run("moving_average_fraction: 0.99", 20000, [] { std::this_thread::yield(); });
  const float weight = writers.weights()[32];
  EXPECT_NEAR(weight, 100, 0.01);
  for (int c = 0; c < Writers::kChannels; ++c) {
    EXPECT_NEAR(writers.weights()[c] / weight, 1, 1e-4);
    EXPECT_NEAR(writers.weights()[16 + c] / weight, 2, 2e-4);
  }
}

// What segments do without damping: N machines, each with steps of its own from the same base, and
// the sum of all their steps merged, array by array and at different times.
TEST(BatchNormStatistics, StayAveragesIfSeveralMachinesAddTheirSteps) {
  constexpr int kMachines = 4, kSteps = 3;
  Rng rng(Seed(), {7});
  Array base = {0, 0};  // a mean's sum, and the weight
  for (int round = 0; round < 2000; ++round) {
    Array total = base;
    for (int machine = 0; machine < kMachines; ++machine) {
      LayerRunner runner(BatchNormText("moving_average_fraction: 0.99"));
      runner.AddBottom({2, 1}, {4, 6});
      runner.SetUp();
      SetData({base[0]}, &runner.param(0));
      SetData({base[1]}, &runner.param(2));
      for (int step = 0; step < kSteps; ++step) {
        runner.Forward();
        runner.layer().EndIteration();
      }
      total[0] += GetData(runner.param(0))[0] - base[0];
      total[1] += GetData(runner.param(2))[0] - base[1];
    }
    // The frames of one array may be lost in a round.
    if (rng.Below(2)) base[0] = static_cast<float>(total[0]);
    base[1] = static_cast<float>(total[1]);
  }
  EXPECT_NEAR(base[1], 100, 0.01);
  EXPECT_NEAR(base[0] / base[1], 5, 0.01);
}

}  // namespace
}  // namespace millrace::test
