#include <cmath>

#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

std::string DropoutText(double ratio) {
  return StrCat("type: 'Dropout' dropout_param { dropout_ratio: ", ratio, " }");
}

// The mask as the generator documents it: in each group of 64 values, value 16 j + c uses word j of
// the block of the group's c-th counter.
Array ExpectedMask(uint64_t seed, uint64_t layer, uint64_t pass, double ratio, int64_t count) {
  const uint64_t key = Rng(seed, {kRngDropout, layer, pass}).Next64();
  Array mask(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t group = i / 64, j = i % 64 / 16, c = i % 16;
    mask[i] = Philox(key, group * 16 + c, 0)[j] >= ratio * 0x1p32;
  }
  return mask;
}

TEST(DropoutLayer, TrainingMultipliesByAScaledMaskOfItsOwnStream) {
  Rng rng(Seed(), {1});
  for (double ratio : {0.0, 0.25, 0.5, 0.9}) {
    for (int64_t count : {1, 63, 64, 65, 1000}) {
      SCOPED_TRACE(StrCat(ratio, " ", count));
      LayerRunner runner(DropoutText(ratio));
      runner.context().seed = Seed();
      runner.context().layer_id = 4;
      runner.set_pass(17);
      Array expected = Uniform(count, -2, 2, &rng);
      runner.AddBottom({count}, expected);
      runner.SetUp();
      const Array mask = ExpectedMask(Seed(), 4, 17, static_cast<float>(ratio), count);
      for (int64_t i = 0; i < count; ++i) expected[i] *= mask[i] / (1 - ratio);
      EXPECT_EQ(Diff(expected, runner.Output(), 1e-6), "");
      const Array diff = Uniform(count, -2, 2, &rng);
      for (int64_t i = 0; i < count; ++i) expected[i] = diff[i] * mask[i] / (1 - ratio);
      runner.Backward(diff);
      EXPECT_EQ(Diff(expected, GetDiff(runner.bottom()), 1e-6), "");
    }
  }
}

TEST(DropoutLayer, DropsTheShareAskedForAndKeepsTheMean) {
  const int64_t count = 200000;
  for (double ratio : {0.1, 0.5, 0.7}) {
    LayerRunner runner(DropoutText(ratio));
    runner.context().seed = Seed();
    runner.AddBottom({count}, Array(count, 1.0));
    runner.SetUp();
    int64_t dropped = 0;
    for (double value : runner.Output()) {
      dropped += value == 0;
      if (value != 0) {
        ASSERT_FLOAT_EQ(value, 1 / (1 - ratio));
      }
    }
    EXPECT_NEAR(dropped, count * ratio, 6 * std::sqrt(count * ratio * (1 - ratio)));
  }
}

TEST(DropoutLayer, DrawsAnotherMaskInEveryPassAndTheSameOneAgain) {
  LayerRunner runner(DropoutText(0.5));
  runner.AddBottom({500}, Array(500, 1.0));
  runner.SetUp();
  runner.set_pass(3);
  const Array third = runner.Output();
  runner.set_pass(4);
  EXPECT_NE(runner.Output(), third);
  runner.set_pass(3);
  EXPECT_EQ(runner.Output(), third);
}

TEST(DropoutLayer, TestingIsTheIdentity) {
  Rng rng(Seed(), {2});
  const Array values = Uniform(100, -1, 1, &rng), diff = Uniform(100, -1, 1, &rng);
  for (bool in_place : {false, true}) {
    LayerRunner runner(DropoutText(0.5), caffe::TEST);
    runner.AddBottom({100}, values);
    in_place ? runner.SetUpInPlace() : runner.SetUp();
    EXPECT_EQ(runner.Output(), values);
    runner.Backward(diff);
    EXPECT_EQ(GetDiff(runner.bottom()), diff);
  }
}

TEST(DropoutLayer, GradientsAreRightInPlaceAndNot) {
  Rng rng(Seed(), {3});
  for (bool in_place : {false, true}) {
    for (caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
      LayerRunner runner(DropoutText(0.4), phase);
      runner.AddBottom({3, 50}, Uniform(150, -1, 1, &rng));
      in_place ? runner.SetUpInPlace() : runner.SetUp();
      EXPECT_EQ(runner.CheckGradients(), "") << in_place;
    }
  }
}

TEST(DropoutLayer, KeepsEveryMemoryOrder) {
  const Shape shape = {2, 16, 3, 5};
  const auto taken =
      ForEachLayout(DropoutText(0.5), shape, Array(480, 1.0), [&](LayerRunner& runner) {
        EXPECT_EQ(runner.top().layout(), runner.bottom().layout());
        EXPECT_EQ(runner.top().shape(), shape);
        EXPECT_EQ(runner.CheckGradients(), "");
      });
  EXPECT_EQ(taken.size(), 4u);
}

TEST(DropoutLayer, FollowsABottomThatGrows) {
  LayerRunner runner(DropoutText(0.5));
  runner.AddBottom({3}, {1, 1, 1});
  runner.SetUp();
  runner.Reshape({70, 100}, Array(7000, 1.0));
  double sum = 0;
  for (double value : runner.Output()) sum += value;
  EXPECT_NEAR(sum / 7000, 1, 6 / std::sqrt(7000));
}

TEST(DropoutLayer, DropsEverythingWithRatioOne) {
  LayerRunner runner(DropoutText(1));
  runner.AddBottom({300}, Array(300, 2.0));
  runner.SetUp();
  EXPECT_EQ(runner.Output(), Array(300, 0.0));
  runner.Backward(Array(300, 1.0));
  EXPECT_EQ(GetDiff(runner.bottom()), Array(300, 0.0));
  LayerRunner test(DropoutText(1), caffe::TEST);
  test.AddBottom({2}, {3, 4});
  test.SetUp();
  EXPECT_EQ(test.Output(), (Array{3, 4}));
}

// scale_train: false, of Fast R-CNN: the scale is that of tests.
TEST(DropoutLayer, ScalesTestsInPlaceOfTraining) {
  Rng rng(Seed(), {4});
  const std::string text =
      "type: 'Dropout' dropout_param { dropout_ratio: 0.25 scale_train: false }";
  for (const bool in_place : {false, true}) {
    Array values = Uniform(200, 1, 2, &rng);
    LayerRunner train(text);
    train.context().seed = Seed();
    train.AddBottom({200}, values);
    in_place ? train.SetUpInPlace() : train.SetUp();
    const Array mask = ExpectedMask(Seed(), 3, 1, 0.25, 200), out = train.Output();
    for (int i = 0; i < 200; ++i) EXPECT_EQ(out[i], mask[i] * values[i]);
    EXPECT_EQ(train.CheckGradients(), "");
    LayerRunner test(text, caffe::TEST);
    test.AddBottom({200}, values);
    in_place ? test.SetUpInPlace() : test.SetUp();
    for (double& value : values) value *= 0.75;
    EXPECT_EQ(Diff(values, test.Output(), 1e-6), "");
    EXPECT_EQ(test.CheckGradients(), "");
  }
}

// sample_weights_test: true, of SegNet.
TEST(DropoutLayer, DropsInTestsIfAsked) {
  const std::string field = "dropout_ratio: 0.5 sample_weights_test: true }";
  LayerRunner train("type: 'Dropout' dropout_param { " + field);
  LayerRunner test("type: 'Dropout' dropout_param { " + field, caffe::TEST);
  for (LayerRunner* runner : {&train, &test}) {
    runner->context().seed = Seed();
    runner->AddBottom({500}, Array(500, 1.0));
    runner->SetUp();
  }
  EXPECT_EQ(test.Output(), train.Output());
  EXPECT_NE(test.Output(), Array(500, 1.0));
  EXPECT_EQ(test.CheckGradients(), "");
}

TEST(DropoutLayer, RefusesARatioOutsideOfZeroToOne) {
  for (const char* ratio : {"-0.1", "1.5", "nan"}) {
    LayerRunner runner(StrCat("type: 'Dropout' dropout_param { dropout_ratio: ", ratio, " }"));
    runner.AddBottom({1}, {1});
    EXPECT_CONTAINS(ErrorOf([&] { runner.SetUp(); }), "expected a number from 0 to 1");
  }
}

}  // namespace
}  // namespace millrace::test
