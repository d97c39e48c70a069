#include <algorithm>
#include <cmath>

#include "test/nn/channel_reference.h"
#include "test/nn/layer_runner.h"
#include "test/nn/net_support.h"
#include "test/support/fake_device.h"

namespace millrace::test {
namespace {

using reference::Channels;

std::string Text(const std::string& param = "") {
  return StrCat("type: 'BN' bn_param { ", param, " }");
}

const char* const kTwo = "bn_mode: LEARN";            // SegNet's
const char* const kInference = "bn_mode: INFERENCE";  // SegNet's

Array Deviations(const Array& variances, double eps) {
  Array deviations;
  for (const double variance : variances) deviations.push_back(std::sqrt(variance + eps));
  return deviations;
}

Array Scaled(const Channels& of, const Array& x, const Array& slope, const Array& bias) {
  Array y;
  for (int64_t i = 0; i < of.count(); ++i) y.push_back(x[i] * slope[of.Of(i)] + bias[of.Of(i)]);
  return y;
}

TEST(BnLayer, NormalizesByTheBatchAndScalesInEveryMemoryOrder) {
  Rng rng(Seed(), {1});
  for (const std::string param : {"", "eps: 0.01", kTwo, "scale_filler { type: 'constant' }"}) {
    const double eps = param.empty() ? 1e-5 : param == "eps: 0.01" ? 0.01 : 1e-9;
    for (const Shape& shape : {Shape{4, 16, 3, 5}, Shape{3, 72, 2, 2}, Shape{5, 7}}) {
      SCOPED_TRACE(param + " " + ShapeText(shape));
      const Channels of{shape[0], shape[1], ShapeCount(shape) / shape[0] / shape[1]};
      const Array x = Uniform(of.count(), 1, 3, &rng), dy = Uniform(of.count(), -1, 1, &rng);
      const Array slope = Uniform(of.channels, -2, 2, &rng);
      const Array bias = Uniform(of.channels, -2, 2, &rng);
      const Array deviations = Deviations(of.Variances(x), eps);
      const Array n = of.Normalized(x, of.Means(x), deviations);
      Array scaled;
      for (int64_t i = 0; i < of.count(); ++i) scaled.push_back(dy[i] * slope[of.Of(i)]);
      const Array dx = of.NormalizedBackward(x, deviations, scaled);
      ForEachLayout(Text(param), shape, x, [&](LayerRunner& runner) {
        SetData(slope, &runner.param(0));
        SetData(bias, &runner.param(1));
        EXPECT_EQ(Diff(Scaled(of, n, slope, bias), runner.Output(), 3e-6), "");
        EXPECT_EQ(runner.top().layout(), runner.bottom().layout());
        runner.Backward(dy);
        EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 5e-6), "");
        EXPECT_EQ(
            Diff(of.Sums([&](int64_t i) { return dy[i] * n[i]; }), GetDiff(runner.param(0)), 5e-6),
            "");
        EXPECT_EQ(Diff(of.Sums([&](int64_t i) { return dy[i]; }), GetDiff(runner.param(1)), 5e-6),
                  "");
      });
    }
  }
}

TEST(BnLayer, GradientsAreRightInPlaceAndNot) {
  Rng rng(Seed(), {2});
  for (const bool in_place : {false, true}) {
    for (const std::string param : {"", "frozen: true", kTwo, kInference}) {
      for (const Layout order : {Layout::kPlain, Layout::kNhwc, Layout::kBlocked8}) {
        SCOPED_TRACE(StrCat(param, in_place, LayoutName(order)));
        LayerRunner runner(Text(param));
        runner.AddBottom({3, 8, 2, 2}, Uniform(96, -2, 2, &rng), order);
        in_place ? runner.SetUpInPlace() : runner.SetUp();
        for (size_t i = 0; i < runner.layer().params().size(); ++i) {
          SetData(Uniform(8, 0.5, 2, &rng), &runner.param(static_cast<int>(i)));
          if (i > 1) runner.layer().params()[i].wanted = false;  // as the net sets it
        }
        runner.Forward();
        EXPECT_EQ(runner.CheckGradients(), "");
      }
    }
  }
}

TEST(BnLayer, NormalizesByItsAveragesInTestsAndFrozen) {
  Rng rng(Seed(), {3});
  const Channels of{2, 16, 15};
  const Array x = Uniform(of.count(), -1, 3, &rng), dy = Uniform(of.count(), -1, 1, &rng);
  const Array slope = Uniform(16, -2, 2, &rng), bias = Uniform(16, -2, 2, &rng);
  const Array mean = Uniform(16, -2, 2, &rng), variance = Uniform(16, 0, 2, &rng);
  const Array deviations = Deviations(variance, 0.125);
  Array dx;
  for (int64_t i = 0; i < of.count(); ++i) {
    dx.push_back(dy[i] * slope[of.Of(i)] / deviations[of.Of(i)]);
  }
  for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
    LayerRunner runner(Text(phase == caffe::TRAIN ? "eps: 0.125 frozen: true" : "eps: 0.125"),
                       phase);
    runner.AddBottom({2, 16, 3, 5}, x);
    runner.SetUp();
    SetData(slope, &runner.param(0));
    SetData(bias, &runner.param(1));
    SetData(mean, &runner.param(2));
    SetData(variance, &runner.param(3));
    EXPECT_EQ(
        Diff(Scaled(of, of.Normalized(x, mean, deviations), slope, bias), runner.Output(), 3e-6),
        "");
    runner.Backward(dy);
    EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 2e-6), "");
    runner.layer().EndIteration();
    EXPECT_EQ(GetData(runner.param(2)), mean);
    EXPECT_EQ(GetData(runner.param(3)), variance);
  }
}

// The blobs after each of several iterations of `passes` batches, by the fork's recursion.
TEST(BnLayer, TakesEveryBatchIntoItsAverages) {
  Rng rng(Seed(), {4});
  const Channels of{3, 8, 4};
  for (const double momentum : {0.9, 0.5, 1.0, 0.0}) {
    for (const int passes : {1, 3}) {
      SCOPED_TRACE(StrCat(momentum, " ", passes));
      LayerRunner runner(Text(StrCat("momentum: ", momentum)));
      runner.AddBottom({3, 8, 2, 2}, Array(of.count(), 0), Layout::kBlocked8);
      runner.SetUp();
      const auto m = static_cast<double>(static_cast<float>(momentum));
      Array mean(8, 0), variance(8, 0);
      for (int iteration = 0; iteration < 4; ++iteration) {
        const Array before = GetData(runner.param(2));
        for (int pass = 0; pass < passes; ++pass) {
          const Array x = Uniform(of.count(), -1, 2, &rng);
          SetData(x, &runner.bottom());
          runner.Forward();
          const Array means = of.Means(x), variances = of.Variances(x);
          for (int c = 0; c < 8; ++c) {
            mean[c] = m * mean[c] + (1 - m) * means[c];
            variance[c] = m * variance[c] + (1 - m) * variances[c];
          }
        }
        EXPECT_EQ(GetData(runner.param(2)), before) << "written before the end of the iteration";
        runner.layer().EndIteration();
        EXPECT_EQ(Diff(mean, GetData(runner.param(2)), 1e-6), "");
        EXPECT_EQ(Diff(variance, GetData(runner.param(3)), 1e-6), "");
      }
    }
  }
}

TEST(BnLayer, GivesMeanAndVarianceOfTheBatchAsSegNetsDoes) {
  Rng rng(Seed(), {5});
  const Channels of{3, 5, 6};
  const Array x = Uniform(of.count(), -1, 4, &rng);
  for (const int tops : {2, 3}) {
    for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
      LayerRunner runner(Text(kTwo), phase);
      runner.AddBottom({3, 5, 2, 3}, x);
      runner.SetUp(tops);
      runner.Forward();
      EXPECT_EQ(runner.top(1).shape(), (Shape{1, 5, 1, 1}));
      EXPECT_EQ(Diff(of.Means(x), GetData(runner.top(1)), 1e-6), "");
      if (tops == 3) {
        EXPECT_EQ(runner.top(2).shape(), (Shape{1, 5, 1, 1}));
        EXPECT_EQ(Diff(of.Variances(x), GetData(runner.top(2)), 1e-6), "");
      }
      GradientCheck check;
      check.top_scale = {1, 0, 0};
      check.top_scale.resize(tops);
      EXPECT_EQ(runner.CheckGradients(check), "");
    }
  }
}

TEST(BnLayer, ScalesOnlyInSegNetsInference) {
  LayerRunner runner(Text(kInference));
  runner.AddBottom({1, 2, 1, 2}, {1, 2, 3, 4});
  runner.SetUp();
  SetData({2, -1}, &runner.param(0));
  SetData({0.5, 1}, &runner.param(1));
  EXPECT_EQ(runner.Output(), (Array{2.5, 4.5, -2, -3}));
  runner.Backward({1, 1, 1, 2});
  EXPECT_EQ(GetDiff(runner.bottom()), (Array{2, 2, -1, -2}));
  EXPECT_EQ(GetDiff(runner.param(0)), (Array{3, 11}));
  EXPECT_EQ(GetDiff(runner.param(1)), (Array{2, 3}));
}

// The learning rates of the blobs as a net sees them after SetUp.
Array LearningRates(const std::string& text) {
  LayerRunner runner(text);
  runner.AddBottom({2, 3}, Array(6, 1));
  runner.SetUp();
  EXPECT_EQ(runner.layer().param().param_size() == 0, runner.layer().params().size() == 2);
  Array rates;
  for (const caffe::ParamSpec& each : runner.layer().param().param()) {
    rates.push_back(each.lr_mult());
  }
  return rates;
}

TEST(BnLayer, HasTheBlobsOfEachForm) {
  const auto blobs = [](const std::string& param) {
    LayerRunner runner(Text(param));
    runner.AddBottom({2, 3}, Array(6, 1));
    runner.SetUp();
    std::vector<double> values;
    for (const Param& each : runner.layer().params()) {
      EXPECT_EQ(each.blob->shape(), (Shape{1, 3, 1, 1}));
      EXPECT_EQ(each.filler.type(), "constant");
      values.push_back(each.filler.value());
    }
    return values;
  };
  EXPECT_EQ(blobs(""), (Array{0, 0, 0, 0}));
  EXPECT_EQ(blobs("slope_filler { value: 1 } bias_filler { value: 0.5 }"), (Array{1, 0.5, 0, 0}));
  EXPECT_EQ(blobs("frozen: true"), (Array{0, 0, 0, 1}));
  EXPECT_EQ(blobs("scale_filler { value: 1 } shift_filler { value: 0.25 }"), (Array{1, 0.25}));
  EXPECT_EQ(LearningRates(Text()), (Array{1, 1, 0, 0}));
  EXPECT_EQ(LearningRates(Text() + "param { lr_mult: 3 } param { lr_mult: 2 } "
                                   "param { lr_mult: 1 } param { lr_mult: 1 }"),
            (Array{3, 2, 0, 0}));
  EXPECT_EQ(LearningRates(Text("frozen: true") + "param { lr_mult: 3 }"), (Array{0, 0, 0, 0}));
  EXPECT_EQ(LearningRates(Text(kTwo)), Array{});
}

TEST(BnLayer, FollowsABottomOfAnotherSize) {
  Rng rng(Seed(), {6});
  LayerRunner runner(Text("slope_filler { value: 1 }"));
  runner.AddBottom({2, 3}, Array(6, 1));
  runner.SetUpInPlace();
  SetData({1, 1, 1}, &runner.param(0));
  const Channels of{20, 3, 7};
  const Array x = Uniform(of.count(), 0, 1, &rng);
  runner.Reshape({20, 3, 7}, x);
  const Array deviations = Deviations(of.Variances(x), 1e-5);
  EXPECT_EQ(Diff(of.Normalized(x, of.Means(x), deviations), runner.Output(), 5e-6), "");
  EXPECT_CONTAINS(ErrorOf([&] { runner.Reshape({3, 2}, Array(6, 1)); }), "expected 3 channels");
}

TEST(BnLayer, RefusesBadSettings) {
  const auto error = [](const std::string& param, int tops = 1, const Shape& shape = {2, 3}) {
    LayerRunner runner(Text(param));
    runner.AddBottom(shape, Array(ShapeCount(shape), 1));
    return ErrorOf([&] { runner.SetUp(tops); });
  };
  EXPECT_EQ(error("eps: -1"), "-1 given, expected at least 0");
  EXPECT_EQ(error("momentum: 1.5"), "1.5 given, expected 0 to 1");
  EXPECT_CONTAINS(error("bn_mode: LEARN momentum: 0.5"), "expected those of one layer");
  EXPECT_CONTAINS(error("scale_filler {} bias_filler {}"), "expected those of one layer");
  EXPECT_CONTAINS(error("frozen: true shift_filler {}"), "expected those of one layer");
  EXPECT_CONTAINS(error("", 2), "2 given, expected 1");
  EXPECT_CONTAINS(error(kInference, 3), "3 given, expected 1");
  EXPECT_CONTAINS(error("", 1, {6}), "expected at least 2");
}

// ---- In nets ----------------------------------------------------------------

const char* const kNet =
    "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 3 dim: 6 dim: 6 } "
    "} }"
    "layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 4 } } }"
    "layer { name: 'bn' type: 'BN' bottom: 'x' top: 'c' bn_param { slope_filler { value: 1 } } }"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'c' top: 'y' inner_product_param {"
    "  num_output: 5 weight_filler { type: 'xavier' } } }"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'l' }";

TEST(BnInANet, SavesItsAveragesAndTrainsNone) {
  TestNet net(kNet);
  FillRandom(net->FindBlob("x"), 1);
  FillRandom(net->FindBlob("label"), 2, 5);
  net.Pass();
  EXPECT_EQ(net.Gradient("bn/2"), std::vector<float>(3, 0));
  EXPECT_NE(net.Gradient("bn/0"), std::vector<float>(3, 0));
  net->EndIteration();
  EXPECT_NE(net.Weights("bn/3"), std::vector<float>(3, 0));
  caffe::NetParameter saved;
  net->ToProto(&saved, false);
  TestNet other(kNet);
  other->CopyWeightsFrom(saved, "saved");
  for (const char* blob : {"bn/0", "bn/1", "bn/2", "bn/3"}) {
    EXPECT_EQ(other.Weights(blob), net.Weights(blob));
  }
}

TEST(BnInANet, TakesBatchesIntoItsAveragesOnAnyDeviceAsOnTheHost) {
  for (const FakeMode mode : {FakeMode::kAtOnce, FakeMode::kLate, FakeMode::kThread}) {
    FakeDevice device({.mode = mode});
    std::vector<std::vector<float>> averages;
    for (Device* each : {static_cast<Device*>(&HostDevice()), static_cast<Device*>(&device)}) {
      caffe::NetParameter param;
      SourceMap source;
      ParseText(kNet, "net.prototxt", &param, &source);
      BuiltNetOptions options = InPhase(caffe::TRAIN);
      options.device = each;
      options.layout = Layout::kPlain;
      BuiltNet net(param, source, options);
      Buffer weights(each->memory(), net.layout().size() * sizeof(float));
      each->memory().Fill(weights.get(), 0, weights.bytes());
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
      averages.emplace_back();
      for (const int blob : {2, 3}) {
        const Blob& from = *net.FindLayer("bn")->params()[blob].blob;
        std::vector<float> values(from.count());
        from.CopyDataToHost(values.data());
        averages.back().insert(averages.back().end(), values.begin(), values.end());
      }
    }
    ASSERT_EQ(averages[0].size(), 6u);
    EXPECT_NE(averages[0][5], 0);
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(averages[1][i], averages[0][i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace millrace::test
