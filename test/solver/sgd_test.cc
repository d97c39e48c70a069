#include "solver/sgd.h"

#include <cmath>
#include <memory>

#include "base/registration.h"
#include "base/rng.h"
#include "proto/parse.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"
#include "weights/param_layout.h"

namespace millrace {
namespace {

caffe::SolverParameter SgdParam(const std::string& text) {
  caffe::SolverParameter param;
  ParseText(text, "solver.prototxt", &param, nullptr);
  return param;
}

// Three parameters of odd sizes, in a net's memory layout.
struct SgdParameters {
  std::vector<UpdateParam> params;
  int64_t size = 0;
};

SgdParameters ThreeParameters(const std::vector<float>& lr_mult,
                              const std::vector<float>& decay_mult) {
  const std::vector<Shape> shapes = {{5, 7}, {33}, {2, 3, 4}};
  ParamLayout layout;
  SgdParameters result;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const ParamEntry entry = layout.entries()[layout.Add(StrCat("layer/", i), shapes[i])];
    result.params.push_back(
        {entry.name, entry.shape, entry.offset, entry.count, lr_mult[i], decay_mult[i]});
  }
  result.size = layout.size();
  return result;
}

std::vector<float> RandomArray(const SgdParameters& parameters, Rng* rng) {
  std::vector<float> array(parameters.size);
  for (const UpdateParam& param : parameters.params) {
    for (int64_t i = 0; i < param.count; ++i) array[param.offset + i] = rng->Gaussian();
  }
  return array;
}

// Caffe's sequence of steps, in double precision.
class Reference {
 public:
  Reference(const caffe::SolverParameter& param, const SgdParameters& parameters,
            const std::vector<float>& weights)
      : param_(param),
        parameters_(parameters),
        weights_(weights.begin(), weights.end()),
        history_(weights.size()) {}

  void Apply(double rate, double look_ahead, const std::vector<float>& gradients) {
    if (param_.type() == "Nesterov") {
      look_ahead = 1;
    } else if (!param_.momentum_lookahead()) {
      look_ahead = 0;
    }
    std::vector<double> g(gradients.begin(), gradients.end());
    Clip(&g);
    for (const UpdateParam& p : parameters_.params) {
      for (int64_t i = p.offset; i < p.offset + p.count; ++i) {
        g[i] /= param_.iter_size();
        const double w = weights_[i];
        const bool l1 = param_.regularization_type() == "L1";
        g[i] += param_.weight_decay() * p.decay_mult * (l1 ? (w > 0) - (w < 0) : w);
        const double before = history_[i], momentum = param_.momentum();
        history_[i] = momentum * before + rate * p.lr_mult * g[i];
        weights_[i] -= history_[i] + look_ahead * momentum * (history_[i] - before);
      }
    }
  }
  const std::vector<double>& weights() const { return weights_; }

 private:
  void Clip(std::vector<double>* g) {
    if (param_.clip_gradients() < 0) return;
    double squares = 0;
    for (double x : *g) squares += x * x;
    const double norm = std::sqrt(squares);
    if (norm <= param_.clip_gradients()) return;
    for (double& x : *g) x *= param_.clip_gradients() / norm;
  }

  const caffe::SolverParameter param_;
  const SgdParameters parameters_;
  std::vector<double> weights_, history_;
};

// The rule that `param` names, on the host.
std::unique_ptr<UpdateRule> RuleOf(const caffe::SolverParameter& param,
                                   const std::vector<UpdateParam>& params, int64_t size) {
  return UpdateRuleRegistry::Get().Create(param, params, size);
}

constexpr float kLookAheads[] = {0, 1, 0.3f};

void CompareWithReference(const caffe::SolverParameter& param, Rng* rng) {
  const SgdParameters parameters = ThreeParameters({1, 2, 0.5f}, {1, 0, 2});
  std::vector<float> weights = RandomArray(parameters, rng);
  Reference reference(param, parameters, weights);
  const auto rule = UpdateRuleRegistry::Get().Create(param, parameters.params, parameters.size);
  for (int iteration = 0; iteration < 6; ++iteration) {
    const std::vector<float> gradients = RandomArray(parameters, rng);
    const float rate = 0.2f / static_cast<float>(1 + iteration);
    const float look_ahead = kLookAheads[iteration / 2];  // the other solvers come and go
    rule->Apply(rate, look_ahead, gradients.data(), weights.data());
    reference.Apply(rate, look_ahead, gradients);
  }
  for (int64_t i = 0; i < parameters.size; ++i) {
    ASSERT_NEAR(weights[i], reference.weights()[i], 2e-5) << "weight " << i;
  }
}

TEST(Sgd, FollowsCaffesFormulaeInEveryCombinationOfSettings) {
  Rng rng(test::Seed(), {1});
  for (const char* clip : {"-1", "0", "0.5", "1000"}) {
    for (int iter_size : {1, 3}) {
      for (const char* type : {"L1", "L2"}) {
        for (const char* decay : {"0", "0.1"}) {
          for (const char* momentum :
               {"0", "0.9", "0.9 momentum_lookahead: false", "0.9 type: 'Nesterov'"}) {
            const std::string text = StrCat("clip_gradients: ", clip, " iter_size: ", iter_size,
                                            " regularization_type: '", type,
                                            "' weight_decay: ", decay, " momentum: ", momentum);
            SCOPED_TRACE(text);
            CompareWithReference(SgdParam(text), &rng);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Absolute value of a weight that starts at 1, on a loss with the given curvature. The solvers,
// each with its own history, take turns; each applies the gradient at the weight that it read after
// its previous turn.
double LeftOfOne(const std::string& settings, int solvers, double curvature) {
  const std::vector<UpdateParam> params = {{"w", {1}, 0, 1, 1, 1}};
  std::vector<std::unique_ptr<UpdateRule>> rules;
  for (int i = 0; i < solvers; ++i) {
    rules.push_back(UpdateRuleRegistry::Get().Create(SgdParam(settings), params, 1));
  }
  float weight = 1;
  std::vector<float> read(solvers, weight);
  for (int turn = 0; turn < 3000 && std::abs(weight) < 1e6f; ++turn) {
    const int solver = turn % solvers;
    const float gradient = static_cast<float>(curvature) * read[solver];
    rules[solver]->Apply(0.001f, solvers > 1, &gradient, &weight);
    read[solver] = weight;
  }
  return std::abs(weight);
}

TEST(Sgd, BearsThreeSolversOnCurvaturesThatThePlainStepDoesNot) {
  for (const double curvature : {1.0, 30.0, 80.0, 120.0, 200.0, 300.0}) {
    SCOPED_TRACE(curvature);
    EXPECT_LT(LeftOfOne("momentum: 0.9", 1, curvature), 1e-3);
    EXPECT_LT(LeftOfOne("momentum: 0.9", 3, curvature), 0.1);
    if (curvature < 100) continue;
    EXPECT_GT(LeftOfOne("momentum: 0.9 momentum_lookahead: false", 3, curvature), 1e5);
  }
}

TEST(Sgd, ClipsByTheNormOverAllParametersBeforeItNormalises) {
  // The norm over both parameters is 5: clipped to 1, then halved by iter_size.
  const std::vector<UpdateParam> params = {{"a", {1}, 0, 1, 1, 1}, {"b", {1}, 16, 1, 1, 1}};
  const auto rule = RuleOf(SgdParam("clip_gradients: 1 iter_size: 2"), params, 32);
  std::vector<float> gradients(32), weights(32);
  gradients[0] = 3, gradients[16] = 4;
  rule->Apply(1, 0, gradients.data(), weights.data());
  EXPECT_FLOAT_EQ(weights[0], -0.3f);
  EXPECT_FLOAT_EQ(weights[16], -0.4f);
}

TEST(Sgd, NeverTouchesParametersWithALrMultOfZero) {
  const SgdParameters parameters = ThreeParameters({1, 0, 1}, {1, 1, 1});
  Rng rng(test::Seed(), {2});
  std::vector<float> weights = RandomArray(parameters, &rng);
  const std::vector<float> before = weights;
  std::vector<float> gradients = RandomArray(parameters, &rng);
  const UpdateParam& frozen = parameters.params[1];
  // The gradient of a frozen parameter is never computed, so its memory may hold any value.
  for (int64_t i = 0; i < frozen.count; ++i) gradients[frozen.offset + i] = NAN;
  const auto rule = RuleOf(SgdParam("momentum: 0.9 weight_decay: 0.1 clip_gradients: 1"),
                           parameters.params, parameters.size);
  rule->Apply(0.1f, 0, gradients.data(), weights.data());
  for (int64_t i = 0; i < frozen.count; ++i) {
    EXPECT_EQ(weights[frozen.offset + i], before[frozen.offset + i]);
  }
  EXPECT_NE(weights[0], before[0]);
  EXPECT_TRUE(std::isfinite(weights[0]));
}

TEST(Sgd, LeavesTheGradientsAndThePaddingAlone) {
  const SgdParameters parameters = ThreeParameters({1, 1, 1}, {1, 1, 1});
  Rng rng(test::Seed(), {3});
  std::vector<float> weights = RandomArray(parameters, &rng);
  std::vector<float> gradients(parameters.size, 1.0f);
  const auto rule = RuleOf(SgdParam("momentum: 0.9"), parameters.params, parameters.size);
  rule->Apply(0.1f, 0, gradients.data(), weights.data());
  EXPECT_EQ(gradients, std::vector<float>(parameters.size, 1.0f));
  std::vector<bool> used(parameters.size);
  for (const UpdateParam& p : parameters.params) {
    for (int64_t i = 0; i < p.count; ++i) used[p.offset + i] = true;
  }
  for (int64_t i = 0; i < parameters.size; ++i) {
    if (!used[i]) {
      EXPECT_EQ(weights[i], 0) << i;
    }
  }
}

TEST(UpdateRule, ContinuesExactlyFromAnExportedHistory) {
  const SgdParameters parameters = ThreeParameters({1, 2, 1}, {1, 1, 0});
  const caffe::SolverParameter param = SgdParam("momentum: 0.9 weight_decay: 0.01");
  Rng rng(test::Seed(), {4});
  std::vector<float> weights = RandomArray(parameters, &rng);
  const auto first = RuleOf(param, parameters.params, parameters.size);
  for (int i = 0; i < 3; ++i) {
    first->Apply(0.1f, false, RandomArray(parameters, &rng).data(), weights.data());
  }
  History history;
  first->ExportHistory(&history);
  const auto second = RuleOf(param, parameters.params, parameters.size);
  second->ImportHistory(history, "x.solverstate");

  std::vector<float> copy = weights;
  const std::vector<float> gradients = RandomArray(parameters, &rng);
  first->Apply(0.1f, false, gradients.data(), weights.data());
  second->Apply(0.1f, false, gradients.data(), copy.data());
  EXPECT_EQ(weights, copy);
}

TEST(UpdateRule, ExportsOneBlobPerParameterInTheirOrderAndShape) {
  const SgdParameters parameters = ThreeParameters({1, 1, 1}, {1, 1, 1});
  const auto rule = RuleOf(SgdParam("momentum: 0.9"), parameters.params, parameters.size);
  std::vector<float> weights(parameters.size), gradients(parameters.size);
  gradients[parameters.params[1].offset + 2] = 1;
  rule->Apply(0.5f, 0, gradients.data(), weights.data());
  History history;
  rule->ExportHistory(&history);
  ASSERT_EQ(history.size(), 3);
  EXPECT_EQ(rule->history_blobs(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ShapeOf(history[i]), parameters.params[i].shape);
  EXPECT_EQ(history[1].data(2), 0.5f);
  EXPECT_EQ(history[1].data(1), 0);
}

TEST(UpdateRule, RefusesAHistoryOfAnotherNet) {
  const SgdParameters parameters = ThreeParameters({1, 1, 1}, {1, 1, 1});
  const auto rule = RuleOf(SgdParam("momentum: 0.9"), parameters.params, parameters.size);
  History history;
  rule->ExportHistory(&history);

  History fewer = history;
  fewer.RemoveLast();
  EXPECT_EQ(test::ErrorOf([&] { rule->ImportHistory(fewer, "x.solverstate"); }),
            "x.solverstate: holds the history of 2 blobs, expected 3");

  History other_shape = history;
  other_shape[1].mutable_shape()->set_dim(0, 34);
  EXPECT_EQ(test::ErrorOf([&] { rule->ImportHistory(other_shape, "x.solverstate"); }),
            "x.solverstate: history of 'layer/1': stored with shape 34 (34), expected 33 (33)");

  History too_short = history;
  too_short[0].mutable_data()->RemoveLast();
  EXPECT_EQ(test::ErrorOf([&] { rule->ImportHistory(too_short, "x.solverstate"); }),
            "x.solverstate: history of 'layer/0': holds 34 values, expected 35");
}

TEST(UpdateRule, TakesAHistoryWithLegacyFourAxisShapes) {
  const SgdParameters parameters = ThreeParameters({1, 1, 1}, {1, 1, 1});
  const auto rule = RuleOf(SgdParam("momentum: 0.9"), parameters.params, parameters.size);
  History history;
  rule->ExportHistory(&history);
  history[0].clear_shape();
  history[0].set_num(1), history[0].set_channels(1), history[0].set_height(5);
  history[0].set_width(7);
  history[0].set_data(3, 2.0f);
  rule->ImportHistory(history, "x.solverstate");
  History again;
  rule->ExportHistory(&again);
  EXPECT_EQ(again[0].data(3), 2.0f);
}

TEST(UpdateRuleRegistry, MakesTheRuleOfThatName) {
  const SgdParameters parameters = ThreeParameters({1, 1, 1}, {1, 1, 1});
  const auto rule =
      UpdateRuleRegistry::Get().Create(SgdParam("type: 'SGD'"), parameters.params, parameters.size);
  EXPECT_NE(dynamic_cast<SgdRule*>(rule.get()), nullptr);
}

TEST(UpdateRuleRegistry, RefusesAnUnknownRuleAndListsTheKnownOnes) {
  const std::string error =
      test::ErrorOf([] { UpdateRuleRegistry::Get().Create(SgdParam("type: 'Adan'"), {}, 0); });
  EXPECT_CONTAINS(error, "there is no update rule \"Adan\"; known: ");
  EXPECT_CONTAINS(error, "SGD");
}

TEST(UpdateRuleRegistry, NamesTheDevicesThatHaveARule) {
  test::FakeDevice device;
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  UpdateRuleRegistry::Get().Register(
      "HostOnly", DeviceType::kCpu,
      [](const UpdateContext&) -> std::unique_ptr<UpdateRule> { return nullptr; });
  TakeBadRegistrations();  // of an earlier repetition of the test
  const std::string error = test::ErrorOf(
      [&] { UpdateRuleRegistry::Get().Create(SgdParam("type: 'HostOnly'"), {}, 0, *queue); });
  EXPECT_EQ(
      error,
      "the update rule \"HostOnly\" cannot run on fake device 0: this build has code for it on "
      "cpu only");
}

}  // namespace
}  // namespace millrace
