// Update rules as one writes them outside of Millrace.
#include "solver/update_rule.h"

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "base/registration.h"
#include "proto/parse.h"
#include "solver/solver_config.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::ErrorOf;

// Two slots: the sum of the gradients, and of their squares. w = w - rate * scale * gain * g.
class SumsRule : public UpdateRule {
 public:
  explicit SumsRule(const UpdateContext& context)
      : UpdateRule(context, 2), gain_(static_cast<float>(CustomNumber("gain", 1))) {
    if (CustomText("sign", "plus") != "plus") {
      throw FieldError("custom_param", "sign is '", CustomText("sign", ""), "', expected plus");
    }
    if (param().has_gamma()) throw FieldError("gamma", "the rule has none");
  }

  std::set<std::string> custom_params() const override { return {"gain", "sign"}; }

  void Apply(float rate, float, const float* gradients, float* weights) override {
    const float scale = GradientScale(gradients);
    for (const UpdateParam& each : params()) {
      ForBlocks(each, weights, [&](int64_t begin, int64_t count) {
        blocks_.push_back({begin, count});
        for (int64_t i = begin; i < begin + count; ++i) {
          history(0)[i] += gradients[i];
          history(1)[i] += gradients[i] * gradients[i];
          weights[i] -= rate * scale * gain_ * gradients[i];
        }
      });
    }
  }

  std::vector<std::pair<int64_t, int64_t>> blocks_;

 private:
  const float gain_;
};

const RegisterUpdateRule<SumsRule> registered("TestSums", DeviceType::kCpu);

std::string SolverText(const std::string& fields) {
  return StrCat("net_param { layer { name: 'in' type: 'Input' top: 'x'\n",
                " input_param { shape { dim: 1 } } } }\n",
                "base_lr: 0.1 lr_policy: 'fixed' max_iter: 10 snapshot_prefix: 'x'\n",
                "type: 'TestSums'\n", fields);
}

SolverConfig Parsed(const std::string& fields) {
  SolverFiles files = SolverFiles::OnDisk();
  files.prepare_folder = [](const std::string&) {};
  return ParseSolverConfig(SolverText(fields), "solver.prototxt", files);
}

std::unique_ptr<UpdateRule> RuleOf(const std::string& fields, int64_t count) {
  return UpdateRuleRegistry::Get().Create(Parsed(fields).param, {{"ip/0", {count}, 0, count, 1, 1}},
                                          count);
}

TEST(OwnUpdateRule, ReadsItsParametersFromTheSolverFile) {
  const auto rule = RuleOf("custom_param { key: 'gain' value: '3' }", 2);
  const float gradients[] = {1, -2};
  float weights[] = {0, 0};
  rule->Apply(0.5f, 0, gradients, weights);
  EXPECT_EQ(weights[0], -1.5f);
  EXPECT_EQ(weights[1], 3.0f);
}

TEST(OwnUpdateRule, ItsMistakesAreNamedWhenTheSolverFileIsRead) {
  const auto complaint = [](const std::string& fields) { return ErrorOf([&] { Parsed(fields); }); };
  EXPECT_EQ(complaint("\ncustom_param { key: 'gian' value: '3' }"),
            "solver.prototxt:6: custom_param: the update rule \"TestSums\" has no parameter gian, "
            "expected one of gain, sign");
  EXPECT_EQ(complaint("custom_param { key: 'gain' value: 'much' }"),
            "solver.prototxt:5: custom_param: gain is 'much', expected a number");
  EXPECT_EQ(complaint("custom_param { key: 'gain' value: 'nan' }"),
            "solver.prototxt:5: custom_param: gain is 'nan', expected a number");
  EXPECT_EQ(complaint("custom_param { key: 'sign' value: 'minus' }"),
            "solver.prototxt:5: custom_param: sign is 'minus', expected plus");
  EXPECT_EQ(complaint("\n\ngamma: 0.5"), "solver.prototxt:7: gamma: the rule has none");
}

TEST(OwnUpdateRule, MillracesRulesHaveNoParametersOfTheirOwn) {
  caffe::SolverParameter param = Parsed("").param;
  param.set_type("SGD");
  UpdateRuleRegistry::Get().Check(param);
  (*param.mutable_custom_param())["gain"] = "1";
  EXPECT_EQ(ErrorOf([&] { UpdateRuleRegistry::Get().Check(param); }),
            "the update rule \"SGD\" has no such parameters");
}

TEST(OwnUpdateRule, ScalesGradientsAsTheSolverFileSays) {
  const float gradients[] = {3, 4};
  float weights[] = {0, 0};
  RuleOf("iter_size: 2 clip_gradients: 1", 2)->Apply(1, false, gradients, weights);
  EXPECT_FLOAT_EQ(weights[0], -0.3f);
  EXPECT_FLOAT_EQ(weights[1], -0.4f);
}

TEST(OwnUpdateRule, KeepsAllOfItsSlotsInTheFileFormat) {
  const auto first = RuleOf("", 3);
  const float gradients[] = {1, 2, -3};
  float weights[] = {0, 0, 0};
  for (int i = 0; i < 2; ++i) first->Apply(0.1f, false, gradients, weights);
  History history;
  first->ExportHistory(&history);
  ASSERT_EQ(history.size(), 2);
  EXPECT_EQ(history[0].data(2), -6);
  EXPECT_EQ(history[1].data(2), 18);
  const auto second = RuleOf("", 3);
  second->ImportHistory(history, "x.solverstate");
  second->Apply(0.1f, false, gradients, weights);
  second->ExportHistory(&history);
  EXPECT_EQ(history[0].data(2), -9);
  EXPECT_EQ(history[1].data(2), 27);
  history.RemoveLast();
  EXPECT_EQ(ErrorOf([&] { second->ImportHistory(history, "x.solverstate"); }),
            "x.solverstate: holds the history of 1 blobs, expected 2");
}

TEST(OwnUpdateRule, ChangesWeightsInBlocksUnderALock) {
  constexpr int64_t kCount = 10000;
  std::vector<float> weights(kCount), gradients(kCount, 1);
  RangeLock locks(weights.data());
  const auto rule = RuleOf("", kCount);
  const auto blocks = [&] { return dynamic_cast<SumsRule&>(*rule).blocks_; };
  rule->Apply(1, 0, gradients.data(), weights.data());
  EXPECT_EQ(blocks().size(), 1u);  // nobody to lock against
  UpdateLock lock(&locks);
  rule->LockWith(&lock);

  // An exchange in the middle holds the update up.
  RangeLock::Exclusive exchange(&locks);
  ASSERT_TRUE(exchange.TryLock(weights.data() + 5000, 16));
  std::atomic<bool> done{false};
  std::thread solver([&] {
    rule->Apply(1, 0, gradients.data(), weights.data());
    done = true;
  });
  for (int i = 0; i < 100 && !done; ++i) std::this_thread::yield();
  EXPECT_FALSE(done);
  exchange.Unlock();
  solver.join();
  int64_t next = 0;
  for (size_t i = 1; i < blocks().size(); ++i) {
    EXPECT_EQ(blocks()[i].first, next);
    next += blocks()[i].second;
  }
  EXPECT_EQ(next, kCount);
  EXPECT_GT(blocks().size(), 2u);
  for (const float weight : weights) ASSERT_EQ(weight, -2);
}

TEST(OwnUpdateRule, OfANameThatThereIsAlreadyIsReported) {
  class Doubled : public SumsRule {
   public:
    using SumsRule::SumsRule;
    void Apply(float rate, float look_ahead, const float* gradients, float* weights) override {
      SumsRule::Apply(2 * rate, look_ahead, gradients, weights);
    }
  };
  const RegisterUpdateRule<SumsRule> sums("TestTwice", DeviceType::kCpu);
  const RegisterUpdateRule<Doubled> doubled("TestTwice", DeviceType::kCpu);
  EXPECT_EQ(
      TakeBadRegistrations(),
      std::vector<std::string>{"update rule TestTwice: two of them have this name, expected one"});
  caffe::SolverParameter param = Parsed("").param;
  param.set_type("TestTwice");
  const auto rule = UpdateRuleRegistry::Get().Create(param, {{"w", {1}, 0, 1, 1, 1}}, 1);
  const float gradient = 1;
  float weight = 0;
  rule->Apply(1, 0, &gradient, &weight);
  EXPECT_EQ(weight, -1);  // the first one
}

}  // namespace
}  // namespace millrace
