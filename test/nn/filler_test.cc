#include "nn/filler.h"

#include <algorithm>
#include <cmath>

#include "proto/parse.h"
#include "test/support/blob_values.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

caffe::FillerParameter Filler(const std::string& text) {
  caffe::FillerParameter param;
  ParseText(text, "filler.prototxt", &param, nullptr);
  return param;
}

Array Filled(const std::string& text, const Shape& shape, uint64_t seed = Seed()) {
  std::vector<float> values(ShapeCount(shape), 1e9f);
  Rng rng(seed, {kRngFiller, 0});
  Fill(Filler(text), shape, &rng, values.data());
  return Array(values.begin(), values.end());
}

double Mean(const Array& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / values.size();
}

double Variance(const Array& values) {
  const double mean = Mean(values);
  double sum = 0;
  for (double value : values) sum += (value - mean) * (value - mean);
  return sum / values.size();
}

// Tolerance in standard deviations of an estimate from n values: 6 are exceeded once in 500 million
// runs.
constexpr double kSigmas = 6;

void ExpectUniform(const Array& values, double low, double high) {
  const double width = high - low, n = values.size();
  EXPECT_GE(*std::min_element(values.begin(), values.end()), low - 1e-6);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), high + 1e-6);
  EXPECT_NEAR(Mean(values), (low + high) / 2, kSigmas * width / std::sqrt(12 * n));
  // The variance of (x - mean)^2 of U(0, 1) is 1/180.
  EXPECT_NEAR(Variance(values), width * width / 12, kSigmas * width * width / std::sqrt(180 * n));
}

void ExpectGaussian(const Array& values, double mean, double std) {
  const double n = values.size();
  EXPECT_NEAR(Mean(values), mean, kSigmas * std / std::sqrt(n));
  EXPECT_NEAR(Variance(values), std * std, kSigmas * std * std * std::sqrt(2 / n));
  // The fourth moment of a normal distribution is 3 sigma^4; its estimate has variance 96 sigma^8 /
  // n.
  double fourth = 0;
  for (double value : values) fourth += std::pow((value - mean) / std, 4) / n;
  EXPECT_NEAR(fourth, 3, kSigmas * std::sqrt(96 / n));
}

std::string ComplaintOf(const std::string& text, const Shape& shape) {
  try {
    CheckFiller(Filler(text), shape, "weight_filler");
  } catch (const FieldError& error) {
    return StrCat(error.field(), ": ", error.what());
  }
  return "";
}

TEST(Filler, ConstantGivesItsValueAndZeroByDefault) {
  EXPECT_EQ(Filled("type: 'constant' value: -2.5", {2, 3}), Array(6, -2.5));
  EXPECT_EQ(Filled("value: 0.25", {4}), Array(4, 0.25));
  EXPECT_EQ(Filled("type: 'constant'", {}), Array(1, 0.0));
}

TEST(Filler, UniformFillsItsRange) {
  ExpectUniform(Filled("type: 'uniform' min: -3 max: 5", {100, 200}), -3, 5);
  ExpectUniform(Filled("type: 'uniform'", {20000}), 0, 1);
}

TEST(Filler, GaussianHasItsMoments) {
  ExpectGaussian(Filled("type: 'gaussian' mean: 1.5 std: 0.01", {100, 300}), 1.5, 0.01);
  ExpectGaussian(Filled("type: 'gaussian'", {30000}), 0, 1);
}

TEST(Filler, SparseGaussianKeepsAsManyValuesAsAsked) {
  const Array values = Filled("type: 'gaussian' std: 2 sparse: 5", {50, 1000});
  Array kept;
  std::copy_if(values.begin(), values.end(), std::back_inserter(kept), [](double x) { return x; });
  const double n = values.size(), p = 5.0 / 50;
  EXPECT_NEAR(kept.size(), n * p, kSigmas * std::sqrt(n * p * (1 - p)));
  ExpectGaussian(kept, 0, 2);
  EXPECT_EQ(Filled("type: 'gaussian' mean: 3 sparse: 0", {4, 5}), Array(20, 0.0));
  const Array all = Filled("type: 'gaussian' mean: 3 std: 0.1 sparse: 9", {4, 5});
  EXPECT_EQ(std::count(all.begin(), all.end(), 0.0), 0);
}

TEST(Filler, XavierScalesByTheChosenFan) {
  const Shape shape = {20, 30, 5, 5};  // fan_in 750, fan_out 500
  const auto expect_limit = [&](const std::string& norm, double fan) {
    SCOPED_TRACE(norm);
    const double limit = std::sqrt(3 / fan);
    ExpectUniform(Filled("type: 'xavier' " + norm, shape), -limit, limit);
  };
  expect_limit("", 750);
  expect_limit("variance_norm: FAN_IN", 750);
  expect_limit("variance_norm: FAN_OUT", 500);
  expect_limit("variance_norm: AVERAGE", 625);
}

TEST(Filler, MsraScalesByTheChosenFan) {
  const Shape shape = {40, 60, 3, 3};  // fan_in 540, fan_out 360
  const auto expect_variance = [&](const std::string& norm, double fan) {
    SCOPED_TRACE(norm);
    ExpectGaussian(Filled("type: 'msra' " + norm, shape), 0, std::sqrt(2 / fan));
  };
  expect_variance("", 540);
  expect_variance("variance_norm: FAN_OUT", 360);
  expect_variance("variance_norm: AVERAGE", 450);
}

TEST(Filler, FanOutOfAVectorIsItsLength) {
  const double limit = std::sqrt(3.0 / 5000);
  ExpectUniform(Filled("type: 'xavier' variance_norm: FAN_OUT", {5000}), -limit, limit);
}

TEST(Filler, RowsOfThePositiveUnitballSumToOne) {
  const Array values = Filled("type: 'positive_unitball'", {7, 3, 11});
  for (int row = 0; row < 7; ++row) {
    double sum = 0;
    for (int i = 0; i < 33; ++i) {
      EXPECT_GE(values[row * 33 + i], 0);
      sum += values[row * 33 + i];
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  EXPECT_GT(Variance(values), 0);
}

TEST(Filler, BilinearIsTheKernelOfInterpolation) {
  // Factor 2 gives 1/4, 3/4, 3/4, 1/4 along an axis.
  const Array side = {0.25, 0.75, 0.75, 0.25};
  const Array values = Filled("type: 'bilinear'", {3, 2, 4, 4});
  for (int i = 0; i < 96; ++i) EXPECT_FLOAT_EQ(values[i], side[i / 4 % 4] * side[i % 4]) << i;
  const Array odd = {1.0 / 3, 2.0 / 3, 1, 2.0 / 3, 1.0 / 3};
  const Array five = Filled("type: 'bilinear'", {1, 1, 5, 5});
  // Size 5 has factor 3; |i / 3 - 4/6| is below 1.
  for (int i = 0; i < 25; ++i) EXPECT_FLOAT_EQ(five[i], odd[i / 5] * odd[i % 5]) << i;
}

TEST(Filler, DependsOnTheSeedAlone) {
  for (const char* text : {"type: 'uniform'", "type: 'gaussian'", "type: 'gaussian' sparse: 3",
                           "type: 'xavier'", "type: 'msra'", "type: 'positive_unitball'"}) {
    SCOPED_TRACE(text);
    const Shape shape = {6, 7};
    EXPECT_EQ(Filled(text, shape, Seed()), Filled(text, shape, Seed()));
    EXPECT_NE(Filled(text, shape, Seed()), Filled(text, shape, Seed() + 1));
  }
}

TEST(Filler, FillsNothingIntoAnEmptyArray) {
  for (const char* text : {"type: 'xavier'", "type: 'positive_unitball'", "type: 'constant'"}) {
    EXPECT_EQ(Filled(text, {0, 3}), Array());
  }
}

TEST(Filler, NamesTheFieldOfEveryMistake) {
  EXPECT_CONTAINS(ComplaintOf("type: 'gauss'", {2}),
                  "weight_filler.type: there is no filler 'gauss'; known: constant, uniform, "
                  "gaussian, xavier, msra, positive_unitball, bilinear");
  EXPECT_CONTAINS(ComplaintOf("type: 'uniform' min: 2 max: 1", {2}), "weight_filler.min: 2");
  EXPECT_CONTAINS(ComplaintOf("type: 'gaussian' std: -1", {2}), "weight_filler.std: -1");
  EXPECT_CONTAINS(ComplaintOf("type: 'gaussian' sparse: -2", {2}), "weight_filler.sparse: -2");
  EXPECT_CONTAINS(ComplaintOf("type: 'xavier' sparse: 2", {2}), "weight_filler.sparse: only");
  EXPECT_CONTAINS(ComplaintOf("type: 'xavier'", {}), "weight_filler.type: xavier needs");
  EXPECT_CONTAINS(ComplaintOf("type: 'bilinear'", {2, 2}), "weight_filler.type: bilinear needs");
  EXPECT_CONTAINS(ComplaintOf("type: 'bilinear'", {1, 1, 2, 3}), "equal height and width");
  EXPECT_EQ(ComplaintOf("type: 'uniform' min: 1 max: 1", {2}), "");
}

TEST(Filler, WritesNothingWhenItRefuses) {
  float values[2] = {3, 4};
  Rng rng(1, {kRngFiller});
  EXPECT_THROW(Fill(Filler("type: 'uniform' min: 2 max: 1"), {2}, &rng, values), FieldError);
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], 4);
}

}  // namespace
}  // namespace millrace::test
