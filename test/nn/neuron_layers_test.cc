// Layers that compute each value of their top from one value of their bottom.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

struct NeuronCase {
  std::string name;  // of the test
  std::string text;
  std::function<double(double)> value, slope;
  double low = -3, high = 3;  // of the bottoms
  bool in_place = true;
};

void PrintTo(const NeuronCase& each, std::ostream* out) { *out << each.name; }

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<NeuronCase> Cases() {
  const auto power = [](const std::string& name, double p, double scale, double shift, double low) {
    return NeuronCase{name,
                      StrCat("type: 'Power' power_param { power: ", p, " scale: ", scale,
                             " shift: ", shift, " }"),
                      [=](double x) { return std::pow(shift + scale * x, p); },
                      [=](double x) {
                        return p * scale == 0 ? 0 : p * scale * std::pow(shift + scale * x, p - 1);
                      },
                      low};
  };
  return {
      {"Sigmoid", "type: 'Sigmoid'", Sigmoid,
       [](double x) { return Sigmoid(x) * (1 - Sigmoid(x)); }},
      {"SigmoidFarFromZero", "type: 'Sigmoid' sigmoid_param { engine: CAFFE }", Sigmoid,
       [](double x) { return Sigmoid(x) * (1 - Sigmoid(x)); }, -200, 200},
      {"TanH", "type: 'TanH'", [](double x) { return std::tanh(x); },
       [](double x) { return 1 - std::tanh(x) * std::tanh(x); }},
      {"Elu", "type: 'ELU' elu_param { alpha: 0.5 }",
       [](double x) { return x > 0 ? x : 0.5 * (std::exp(x) - 1); },
       [](double x) { return x > 0 ? 1 : 0.5 * std::exp(x); }},
      {"EluOfNegativeAlpha", "type: 'ELU' elu_param { alpha: -0.5 }",
       [](double x) { return x > 0 ? x : -0.5 * (std::exp(x) - 1); },
       [](double x) { return x > 0 ? 1 : -0.5 * std::exp(x); }},
      {"EluByDefault", "type: 'ELU'", [](double x) { return x > 0 ? x : std::exp(x) - 1; },
       [](double x) { return x > 0 ? 1 : std::exp(x); }},
      {"Selu", "type: 'SeLu'",
       [](double x) { return 1.050700987 * (x > 0 ? x : 1.67326324 * (std::exp(x) - 1)); },
       [](double x) { return 1.050700987 * (x > 0 ? 1 : 1.67326324 * std::exp(x)); }},
      {"SeluOfNegativeLambda", "type: 'SeLu' selu_param { lambda: -2 alpha: 0.5 }",
       [](double x) { return -2 * (x > 0 ? x : 0.5 * (std::exp(x) - 1)); },
       [](double x) { return -2 * (x > 0 ? 1 : 0.5 * std::exp(x)); }},
      {"Swish", "type: 'Swish' swish_param { beta: 1.5 }",
       [](double x) { return x * Sigmoid(1.5 * x); },
       [](double x) {
         return Sigmoid(1.5 * x) + 1.5 * x * Sigmoid(1.5 * x) * (1 - Sigmoid(1.5 * x));
       }},
      {"SwishByDefault", "type: 'Swish'", [](double x) { return x * Sigmoid(x); },
       [](double x) { return Sigmoid(x) + x * Sigmoid(x) * (1 - Sigmoid(x)); }},
      {"Clip", "type: 'Clip' clip_param { min: -1 max: 0.5 }",
       [](double x) { return std::min(std::max(x, -1.0), 0.5); },
       [](double x) { return x >= -1 && x <= 0.5 ? 1 : 0; }},
      {"Relu6", "type: 'ReLU6'", [](double x) { return std::min(std::max(x, 0.0), 6.0); },
       [](double x) { return x > 0 && x < 6 ? 1 : 0; }, -4, 9},
      {"AbsVal", "type: 'AbsVal'", [](double x) { return std::abs(x); },
       [](double x) { return x < 0 ? -1 : 1; }, -3, 3, false},
      power("PowerOfOne", 1, -2, 0.5, -3),
      power("PowerOfTwo", 2, 0.5, -1, -3),
      power("PowerOfThree", 3, -0.5, 0.25, -3),
      power("PowerOfAHalf", 0.5, 2, 1, 0.1),
      power("PowerOfMinusOne", -1, 1, 0, 0.5),
      power("PowerOfZero", 0, 2, 1, -3),
      power("PowerWithoutScale", 3, 0, 1.5, -3),
      {"Exp", "type: 'Exp'", [](double x) { return std::exp(x); },
       [](double x) { return std::exp(x); }},
      {"ExpOfBase", "type: 'Exp' exp_param { base: 2 scale: 0.5 shift: -1 }",
       [](double x) { return std::pow(2, 0.5 * x - 1); },
       [](double x) { return 0.5 * std::log(2) * std::pow(2, 0.5 * x - 1); }},
      {"ExpShifted", "type: 'Exp' exp_param { shift: 0.5 scale: -1 }",
       [](double x) { return std::exp(0.5 - x); }, [](double x) { return -std::exp(0.5 - x); }},
      {"Log", "type: 'Log'", [](double x) { return std::log(x); }, [](double x) { return 1 / x; },
       0.2},
      {"LogOfBase", "type: 'Log' log_param { base: 10 scale: 2 shift: 7 }",
       [](double x) { return std::log10(2 * x + 7); },
       [](double x) { return 2 / (std::log(10) * (2 * x + 7)); }},
      {"Bnll", "type: 'BNLL'", [](double x) { return std::log1p(std::exp(x)); }, Sigmoid},
      {"BnllFarFromZero", "type: 'BNLL'",
       [](double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); },
       Sigmoid, -200, 200},
  };
}

class NeuronLayers : public testing::TestWithParam<NeuronCase> {
 protected:
  // Values in the case's range, none of them within 0.01 of a kink.
  static Array Inputs(int64_t count, uint64_t stream) {
    Rng rng(Seed(), {stream});
    Array x = Uniform(count, GetParam().low, GetParam().high, &rng);
    for (double& value : x) {
      for (const double kink : {-1.0, 0.0, 0.5, 6.0}) {
        if (std::abs(value - kink) < 0.01) value = static_cast<float>(kink + 0.05);
      }
    }
    return x;
  }
  static Array Apply(const std::function<double(double)>& function, const Array& x) {
    Array y;
    for (const double value : x) y.push_back(function(value));
    return y;
  }
};

TEST_P(NeuronLayers, MatchTheirFormulaInEveryMemoryOrder) {
  for (const Shape& shape : {Shape{2, 16, 3, 5}, Shape{3, 7}, Shape{1}, Shape{2, 3, 4, 2, 3}}) {
    const Array x = Inputs(ShapeCount(shape), 1);
    Rng rng(Seed(), {2});
    const Array dy = Uniform(ShapeCount(shape), -1, 1, &rng);
    Array dx = Apply(GetParam().slope, x);
    for (size_t i = 0; i < dx.size(); ++i) dx[i] *= dy[i];
    const auto taken = ForEachLayout(GetParam().text, shape, x, [&](LayerRunner& runner) {
      EXPECT_EQ(Diff(Apply(GetParam().value, x), runner.Output(), 1e-6), "");
      EXPECT_EQ(runner.top().layout(), runner.bottom().layout());
      runner.Backward(dy);
      EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 2e-6), "");
    });
    EXPECT_EQ(taken.size(), shape == (Shape{2, 16, 3, 5}) ? 4u : 1u);
  }
}

TEST_P(NeuronLayers, ComputeTheSameInPlace) {
  const Array x = Inputs(60, 3);
  Rng rng(Seed(), {4});
  const Array dy = Uniform(60, -1, 1, &rng);
  Array dx = Apply(GetParam().slope, x);
  for (size_t i = 0; i < dx.size(); ++i) dx[i] *= dy[i];
  LayerRunner runner(GetParam().text);
  runner.AddBottom({4, 15}, x);
  runner.SetUpInPlace();
  EXPECT_EQ(runner.layer().MayWorkInPlace(), GetParam().in_place);
  if (!GetParam().in_place) return;
  EXPECT_EQ(Diff(Apply(GetParam().value, x), runner.Output(), 1e-6), "");
  runner.Backward(dy);
  EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 2e-6), "");
}

TEST_P(NeuronLayers, HaveRightGradients) {
  if (GetParam().high > 100) return;  // the numbers are too large for differences
  for (const bool in_place : {false, true}) {
    if (in_place && !GetParam().in_place) continue;
    SCOPED_TRACE(in_place);
    LayerRunner runner(GetParam().text);
    runner.AddBottom({4, 10}, Inputs(40, 5));
    in_place ? runner.SetUpInPlace() : runner.SetUp();
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST_P(NeuronLayers, FollowABottomThatGrows) {
  for (const bool in_place : {false, true}) {
    if (in_place && !GetParam().in_place) continue;
    LayerRunner runner(GetParam().text);
    runner.AddBottom({2}, Inputs(2, 6));
    in_place ? runner.SetUpInPlace() : runner.SetUp();
    const Array x = Inputs(600, 7);
    runner.Reshape({20, 30}, x);
    EXPECT_EQ(Diff(Apply(GetParam().value, x), runner.Output(), 1e-6), "");
    runner.Backward(Array(600, 1));
    EXPECT_EQ(Diff(Apply(GetParam().slope, x), GetDiff(runner.bottom()), 2e-6), "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, NeuronLayers, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<NeuronCase>& info) {
                           return info.param.name;
                         });

// The output of a layer for one value.
double OutputFor(const std::string& text, double x) {
  LayerRunner runner(text);
  runner.AddBottom({1}, {x});
  runner.SetUp();
  return runner.Output()[0];
}

TEST(NeuronValues, PassOnNaNs) {
  for (const char* type : {"Sigmoid", "TanH", "ELU", "SeLu", "Swish", "BNLL", "ReLU6", "AbsVal",
                           "Exp", "Log", "Power"}) {
    EXPECT_TRUE(std::isnan(OutputFor(StrCat("type: '", type, "'"), NAN))) << type;
  }
  EXPECT_TRUE(std::isnan(OutputFor("type: 'Clip' clip_param { min: 0 max: 1 }", NAN)));
}

TEST(NeuronValues, AreThoseOfCaffeWhereAFunctionEnds) {
  EXPECT_EQ(OutputFor("type: 'Log'", 0), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(OutputFor("type: 'Log'", -1)));
  EXPECT_EQ(OutputFor("type: 'Exp'", 1000), HUGE_VAL);
  EXPECT_EQ(OutputFor("type: 'Exp'", -1000), 0);
  EXPECT_EQ(OutputFor("type: 'Power' power_param { power: 0 }", 0), 1);
  EXPECT_EQ(OutputFor("type: 'Power' power_param { scale: 0 shift: 2 power: 3 }", NAN), 8);
  EXPECT_TRUE(std::isnan(OutputFor("type: 'Power' power_param { power: 0.5 }", -1)));
}

TEST(PowerLayer, HasAGradientWhereTheBaseIsZero) {
  LayerRunner runner("type: 'Power' power_param { power: 3 }");
  runner.AddBottom({2}, {0, 2});
  runner.SetUp();
  runner.Forward();
  runner.Backward({1, 1});
  EXPECT_EQ(Diff({0, 12}, GetDiff(runner.bottom())), "");
}

TEST(ThresholdLayer, ComparesWithItsThreshold) {
  for (const Layout order : kLayouts) {
    LayerRunner runner("type: 'Threshold' threshold_param { threshold: 0.5 }");
    Rng rng(Seed(), {8});
    const Array x = Uniform(2 * 16 * 3, -2, 2, &rng);
    runner.AddBottom({2, 16, 3, 1}, x, order);
    runner.SetUp();
    Array expected;
    for (const double value : x) expected.push_back(value > 0.5);
    EXPECT_EQ(Diff(expected, runner.Output()), "");
  }
  EXPECT_EQ(OutputFor("type: 'Threshold'", 0), 0);
  EXPECT_EQ(OutputFor("type: 'Threshold'", 1e-30), 1);
}

TEST(ThresholdLayer, RefusesABackwardPassToItsBottom) {
  LayerRunner runner("type: 'Threshold'");
  runner.AddBottom({2}, {1, -1});
  runner.SetUp();
  runner.Forward();
  EXPECT_EQ(ErrorOf([&] {
              runner.Backward({1, 1});
            }),
            "layer 'subject': a Threshold has no gradient: set propagate_down: false, or train no "
            "layer below it");
  runner.layer().Backward(runner.tops(), {false}, runner.bottoms());
}

TEST(NeuronSettings, AreRefusedIfTheyMakeNoSense) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"type: 'Clip'", "missing"},
      {"type: 'Clip' clip_param { min: 0 }", "missing"},
      {"type: 'Clip' clip_param { min: 2 max: 1 }", "2 given, expected at most max: 1"},
      {"type: 'Exp' exp_param { base: 0 }", "0 given, expected a positive number, or -1 for e"},
      {"type: 'Exp' exp_param { base: inf }", "inf given, expected a positive number, or -1 for e"},
      {"type: 'Log' log_param { base: -2 }", "-2 given, expected a positive number, or -1 for e"},
      {"type: 'Log' log_param { base: 1 }", "1 given, expected another base"},
  };
  for (const auto& each : cases) {
    LayerRunner runner(each.text);
    runner.AddBottom({2}, {1, 2});
    EXPECT_EQ(ErrorOf([&] { runner.SetUp(); }), each.error) << each.text;
  }
}

}  // namespace
}  // namespace millrace::test
