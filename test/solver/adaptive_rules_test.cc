// AdaGrad, RMSProp, AdaDelta and Adam against plain models of their formulas in double precision.
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "proto/parse.h"
#include "solver/update_rule.h"
#include "test/support/support.h"
#include "weights/copy_weights.h"
#include "weights/param_layout.h"

namespace millrace {
namespace {

using test::ErrorOf;

caffe::SolverParameter Param(const std::string& text) {
  caffe::SolverParameter param;
  ParseText(text, "solver.prototxt", &param, nullptr);
  return param;
}

const char* const kRules[] = {"AdaGrad", "RMSProp", "AdaDelta", "Adam"};

// Settings under which a rule makes progress.
std::string SettingsOf(const std::string& rule) {
  std::string text = StrCat("type: '", rule, "' ");
  if (rule == "RMSProp") text += "rms_decay: 0.9 delta: 1e-4 ";
  if (rule == "AdaDelta") text += "momentum: 0.8 delta: 1e-3 ";
  if (rule == "Adam") text += "momentum: 0.7 momentum2: 0.95 ";
  return text;
}

// Parameters of sizes that are no multiples of a vector, in a net's memory layout.
struct Parameters {
  explicit Parameters(const std::vector<float>& lr_mult = {1, 2, 0.5f},
                      const std::vector<float>& decay_mult = {1, 0, 2}) {
    const std::vector<Shape> shapes = {{5, 7}, {9001}, {2, 3, 4}};
    ParamLayout layout;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const ParamEntry entry = layout.entries()[layout.Add(StrCat("layer/", i), shapes[i])];
      params.push_back(
          {entry.name, entry.shape, entry.offset, entry.count, lr_mult[i], decay_mult[i]});
    }
    size = layout.size();
  }
  std::vector<float> Random(Rng* rng) const {
    std::vector<float> array(size);
    for (const UpdateParam& param : params) {
      for (int64_t i = 0; i < param.count; ++i) array[param.offset + i] = rng->Gaussian();
    }
    return array;
  }
  std::unique_ptr<UpdateRule> Rule(const std::string& settings) const {
    return UpdateRuleRegistry::Get().Create(Param(settings), params, size);
  }

  std::vector<UpdateParam> params;
  int64_t size = 0;
};

// One weight under one rule, as the papers and Caffe have it.
struct Scalar {
  double w = 0, a = 0, b = 0;  // the weight and the rule's two slots
  int updates = 0;

  void Step(const caffe::SolverParameter& param, double rate, double g) {
    const std::string& type = param.type();
    const double delta = param.delta(), momentum = param.momentum();
    ++updates;
    if (type == "AdaGrad") {
      a += g * g;
      w -= rate * g / (std::sqrt(a) + delta);
    } else if (type == "RMSProp") {
      a = param.rms_decay() * a + (1 - double{param.rms_decay()}) * g * g;
      w -= rate * g / (std::sqrt(a) + delta);
    } else if (type == "AdaDelta") {
      a = momentum * a + (1 - momentum) * g * g;
      const double step = std::sqrt(b + delta) / std::sqrt(a + delta) * g;
      b = momentum * b + (1 - momentum) * step * step;
      w -= rate * step;
    } else {
      const double momentum2 = param.momentum2();
      a = momentum * a + (1 - momentum) * g;
      b = momentum2 * b + (1 - momentum2) * g * g;
      const double mean = a / (1 - std::pow(momentum, updates));
      const double square = b / (1 - std::pow(momentum2, updates));
      // epsilon-hat: the paper's epsilon, before the correction of the square
      const double epsilon = delta / std::sqrt(1 - std::pow(momentum2, updates));
      w -= rate * mean / (std::sqrt(square) + epsilon);
    }
  }
};

void CompareWithScalars(const std::string& settings, Rng* rng) {
  const caffe::SolverParameter param = Param(settings);
  const Parameters parameters;
  std::vector<float> weights = parameters.Random(rng);
  std::vector<Scalar> scalars(parameters.size);
  for (int64_t i = 0; i < parameters.size; ++i) scalars[i].w = weights[i];
  const auto rule = parameters.Rule(settings);
  for (int iteration = 0; iteration < 7; ++iteration) {
    const std::vector<float> gradients = parameters.Random(rng);
    const float rate = 0.1f / static_cast<float>(1 + iteration);
    rule->Apply(rate, static_cast<float>(iteration % 2), gradients.data(), weights.data());
    double squares = 0;
    for (const float g : gradients) squares += double{g} * g;
    const double norm = std::sqrt(squares), limit = param.clip_gradients();
    const double clip = limit >= 0 && norm > limit ? limit / norm : 1;
    for (const UpdateParam& each : parameters.params) {
      for (int64_t i = each.offset; i < each.offset + each.count; ++i) {
        const double w = scalars[i].w;
        const double pull = param.regularization_type() == "L1" ? (w > 0) - (w < 0) : w;
        const double g =
            clip * gradients[i] / param.iter_size() + param.weight_decay() * each.decay_mult * pull;
        scalars[i].Step(param, rate * each.lr_mult, g);
      }
    }
  }
  for (const UpdateParam& each : parameters.params) {
    for (int64_t i = each.offset; i < each.offset + each.count; ++i) {
      ASSERT_NEAR(weights[i], scalars[i].w, 5e-5) << each.name << " " << i - each.offset;
    }
  }
}

TEST(AdaptiveRules, FollowTheirFormulasInEveryCombinationOfSettings) {
  Rng rng(test::Seed(), {1});
  for (const std::string rule : kRules) {
    for (const char* clip : {"", "clip_gradients: 20 "}) {
      for (const char* size : {"", "iter_size: 3 "}) {
        for (const char* decay :
             {"", "weight_decay: 0.1 ", "weight_decay: 0.1 regularization_type: 'L1' "}) {
          const std::string settings = StrCat(SettingsOf(rule), clip, size, decay);
          SCOPED_TRACE(settings);
          CompareWithScalars(settings, &rng);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

// By hand, with gradients 3 and then 4.
TEST(AdaptiveRules, TakeTheStepsOfAHandCalculation) {
  const std::map<std::string, std::pair<double, double>> steps = {
      // 3 / sqrt(9); 4 / sqrt(25)
      {"type: 'AdaGrad' delta: 0", {1, 0.8}},
      // 3 / sqrt(4.5); 4 / sqrt(2.25 + 8)
      {"type: 'RMSProp' rms_decay: 0.5 delta: 0", {1.414214, 1.249390}},
      // 3 * sqrt(1 / 5.5); u = 0.5 * 9 / 5.5, 4 * sqrt((u + 1) / (2.25 + 8 + 1))
      {"type: 'AdaDelta' momentum: 0.5 delta: 1", {1.279204, 1.608061}},
      // 1; m = 2.75, v = 13.6875, sqrt(1 - 0.25^2) / (1 - 0.5^2) * m / sqrt(v)
      {"type: 'Adam' momentum: 0.5 momentum2: 0.25 delta: 0", {1, 0.959611}},
  };
  for (const auto& [settings, expected] : steps) {
    SCOPED_TRACE(settings);
    const auto rule =
        UpdateRuleRegistry::Get().Create(Param(settings), {{"w", {1}, 0, 1, 1, 1}}, 1);
    float weight = 0, gradient = 3;
    rule->Apply(1, 0, &gradient, &weight);
    EXPECT_NEAR(-weight, expected.first, 1e-5);
    weight = 0, gradient = 4;
    rule->Apply(1, 0, &gradient, &weight);
    EXPECT_NEAR(-weight, expected.second, 1e-5);
  }
}

TEST(AdaptiveRules, KeepTheHistoryOfCaffeInItsOrder) {
  const Parameters parameters;
  Rng rng(test::Seed(), {2});
  for (const std::string name : kRules) {
    SCOPED_TRACE(name);
    const int slots = name == "AdaDelta" || name == "Adam" ? 2 : 1;
    const auto rule = parameters.Rule(SettingsOf(name));
    EXPECT_EQ(rule->history_blobs(), 3 * slots);
    std::vector<float> weights = parameters.Random(&rng);
    std::vector<float> gradients(parameters.size);
    gradients[parameters.params[1].offset + 4] = 2;
    rule->Apply(0.1f, 0, gradients.data(), weights.data());
    History history;
    rule->ExportHistory(&history);
    ASSERT_EQ(history.size(), 3 * slots);
    for (int i = 0; i < history.size(); ++i) {
      EXPECT_EQ(ShapeOf(history[i]), parameters.params[i % 3].shape);
    }
    // All first slots, then all second ones.
    const std::map<std::string, double> first = {
        {"AdaGrad", 4}, {"RMSProp", 0.1 * 4}, {"AdaDelta", 0.2 * 4}, {"Adam", 0.3 * 2}};
    EXPECT_NEAR(history[1].data(4), first.at(name), 1e-6);
    EXPECT_EQ(history[1].data(3), 0);
    if (slots == 1) continue;
    const double step_squared = 4 * 0.001 / (0.8 + 0.001);  // of AdaDelta
    EXPECT_NEAR(history[4].data(4), name == "Adam" ? 0.05 * 4 : 0.2 * step_squared, 1e-6);
    EXPECT_EQ(history[4].data(3), 0);
  }
}

TEST(AdaptiveRules, ContinueExactlyFromAnExportedHistory) {
  const Parameters parameters;
  Rng rng(test::Seed(), {3});
  for (const std::string name : kRules) {
    SCOPED_TRACE(name);
    std::vector<float> weights = parameters.Random(&rng);
    const auto first = parameters.Rule(SettingsOf(name));
    for (int i = 0; i < 3; ++i) {
      first->Apply(0.1f, false, parameters.Random(&rng).data(), weights.data());
    }
    History history;
    first->ExportHistory(&history);
    const auto second = parameters.Rule(SettingsOf(name));
    // The iteration of the run, which several solvers have reached together.
    second->ImportHistory(history, "x.solverstate", 1000);
    std::vector<float> copy = weights;
    for (int i = 0; i < 2; ++i) {
      const std::vector<float> gradients = parameters.Random(&rng);
      first->Apply(0.1f, false, gradients.data(), weights.data());
      second->Apply(0.1f, false, gradients.data(), copy.data());
    }
    EXPECT_EQ(weights, copy);
  }
}

// The step of a single weight, after `before` updates that the history says it holds.
double AdamStepAfter(std::optional<int64_t> said, int64_t iteration) {
  const auto rule = UpdateRuleRegistry::Get().Create(
      Param("type: 'Adam' momentum: 0.5 momentum2: 0.5 delta: 0"), {{"w", {1}, 0, 1, 1, 1}}, 1);
  History history;
  rule->ExportHistory(&history);
  history[0].clear_updates();
  if (said) history[0].set_updates(*said);
  rule->ImportHistory(history, "x.solverstate", iteration);
  const float gradient = 1;
  float weight = 0;
  rule->Apply(1, 0, &gradient, &weight);
  return -weight;
}

TEST(Adam, CorrectsForTheUpdatesThatItsHistoryHolds) {
  const auto step = [](double t) {
    return std::sqrt(1 - std::pow(0.5, t)) / (1 - std::pow(0.5, t)) * 0.5 / std::sqrt(0.5);
  };
  EXPECT_NEAR(AdamStepAfter(0, 9), step(1), 1e-6);
  EXPECT_NEAR(AdamStepAfter(2, 9), step(3), 1e-6);
  // Caffe's files hold no number of updates: they are those of the run.
  EXPECT_NEAR(AdamStepAfter(std::nullopt, 4), step(5), 1e-6);
  EXPECT_EQ(ErrorOf([] { AdamStepAfter(-3, 4); }),
            "x.solverstate: updates: -3 stored, expected >= 0");
}

TEST(Adam, AloneSavesTheNumberOfItsUpdates) {
  const Parameters parameters;
  for (const std::string name : {"SGD", "AdaGrad", "AdaDelta", "Adam"}) {
    const auto rule = parameters.Rule(SettingsOf(name));
    std::vector<float> arrays(parameters.size);
    History history;
    for (int i = 0; i < 2; ++i) rule->Apply(0.1f, 0, arrays.data(), arrays.data());
    rule->ExportHistory(&history);
    EXPECT_EQ(history[0].has_updates(), name == "Adam") << name;
    EXPECT_EQ(history[0].updates(), name == "Adam" ? 2 : 0) << name;
  }
}

TEST(AdaptiveRules, NeverTouchParametersWithALrMultOfZero) {
  const Parameters parameters({1, 0, 1});
  Rng rng(test::Seed(), {4});
  for (const std::string name : kRules) {
    SCOPED_TRACE(name);
    std::vector<float> weights = parameters.Random(&rng), gradients = parameters.Random(&rng);
    const std::vector<float> before = weights;
    const UpdateParam& frozen = parameters.params[1];
    for (int64_t i = 0; i < frozen.count; ++i) gradients[frozen.offset + i] = NAN;
    parameters.Rule(SettingsOf(name) + "clip_gradients: 1 weight_decay: 0.1")
        ->Apply(0.1f, false, gradients.data(), weights.data());
    for (int64_t i = 0; i < frozen.count; ++i) {
      ASSERT_EQ(weights[frozen.offset + i], before[frozen.offset + i]);
    }
    EXPECT_NE(weights[0], before[0]);
    EXPECT_TRUE(std::isfinite(weights[0]));
  }
}

TEST(AdaptiveRules, ChangeWeightsInTheBlocksOfALock) {
  const Parameters parameters({1, 1, 1}, {1, 1, 1});
  Rng rng(test::Seed(), {5});
  for (const std::string name : kRules) {
    SCOPED_TRACE(name);
    std::vector<float> weights = parameters.Random(&rng), locked = weights;
    const std::vector<float> gradients = parameters.Random(&rng);
    parameters.Rule(SettingsOf(name))->Apply(0.1f, false, gradients.data(), weights.data());
    RangeLock locks(locked.data());
    UpdateLock lock(&locks);
    const auto rule = parameters.Rule(SettingsOf(name));
    rule->LockWith(&lock);
    rule->Apply(0.1f, 0, gradients.data(), locked.data());
    for (const UpdateParam& each : parameters.params) {
      for (int64_t i = each.offset; i < each.offset + each.count; ++i) {
        ASSERT_NEAR(weights[i], locked[i], 1e-6) << i;
      }
    }
  }
}

TEST(AdaptiveRules, DescendOnWeightsThatTwoThreadsShare) {
  for (const std::string name : kRules) {
    SCOPED_TRACE(name);
    constexpr int64_t kCount = 5000;
    std::vector<float> weights(kCount, 2.0f);
    const auto descend = [&] {
      const auto rule = UpdateRuleRegistry::Get().Create(
          Param(SettingsOf(name)), {{"w", {kCount}, 0, kCount, 1, 1}}, kCount);
      std::vector<float> gradients(kCount);  // of sum(w^2) / 2
      for (int i = 0; i < 300; ++i) {
        HogwildReadWeights(kCount, weights.data(), gradients.data());
        rule->Apply(name == "AdaDelta" ? 1 : 0.02f, 1, gradients.data(), weights.data());
      }
    };
    std::thread one(descend), other(descend);
    one.join();
    other.join();
    for (const float weight : weights) ASSERT_LT(std::abs(weight), 1.9f);
  }
}

TEST(AdaptiveRules, RefuseSettingsThatStopCaffe) {
  const auto refusal = [](const std::string& text) {
    return ErrorOf([&] { UpdateRuleRegistry::Get().Check(Param(text)); });
  };
  EXPECT_EQ(refusal("type: 'AdaGrad' momentum: 0.9"), "0.9 given, AdaGrad has none, expected 0");
  EXPECT_EQ(refusal("type: 'RMSProp' momentum: 0.9"), "0.9 given, RMSProp has none, expected 0");
  for (const char* decay : {"1", "-0.1", "2"}) {
    EXPECT_EQ(refusal(StrCat("type: 'RMSProp' rms_decay: ", decay)),
              StrCat(decay, " given, expected a number from 0 to less than 1"));
  }
  for (const std::string name : kRules) {
    UpdateRuleRegistry::Get().Check(Param(StrCat("type: '", name, "' momentum: 0")));
  }
}

}  // namespace
}  // namespace millrace
