#include "solver/lr_policy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "exchange/kernels/rules/default_merge_rule.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"
#include "solver/rate_scale.h"
#include "test/support/support.h"

namespace millrace {
namespace {

LrPolicy Policy(const std::string& text) {
  caffe::SolverParameter param;
  ParseText(text, "solver.prototxt", &param, nullptr);
  return LrPolicy(param);
}

// The field that the error names, and the message.
std::string Refusal(const std::string& text) {
  try {
    Policy(text);
  } catch (const FieldError& error) {
    return StrCat(error.field(), ": ", error.what());
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

TEST(LrPolicy, FixedStaysAtBaseLr) {
  const LrPolicy policy = Policy("base_lr: 0.01 lr_policy: 'fixed'");
  EXPECT_FLOAT_EQ(policy.Rate(0), 0.01f);
  EXPECT_FLOAT_EQ(policy.Rate(1000000), 0.01f);
  EXPECT_EQ(policy.Step(1000), 0);
}

TEST(LrPolicy, StepFallsByGammaEveryStepsize) {
  const LrPolicy policy = Policy("base_lr: 0.5 lr_policy: 'step' gamma: 0.1 stepsize: 100");
  EXPECT_FLOAT_EQ(policy.Rate(0), 0.5f);
  EXPECT_FLOAT_EQ(policy.Rate(99), 0.5f);
  EXPECT_FLOAT_EQ(policy.Rate(100), 0.05f);
  EXPECT_FLOAT_EQ(policy.Rate(250), 0.005f);
  EXPECT_EQ(policy.Step(250), 2);
  EXPECT_EQ(policy.Notice(100), "");
}

// As Caffe, which keeps current_step and compares the iteration with the next stepvalue only.
TEST(LrPolicy, MultistepKeepsTheStepsOfTheSnapshotThatItResumes) {
  const std::string text = "base_lr: 1 lr_policy: 'multistep' gamma: 0.1 stepvalue: 8 stepvalue: 9";
  const auto rates = [&](int64_t iteration, int32_t steps) {
    LrPolicy policy = Policy(text);
    policy.Resume(iteration, steps);
    EXPECT_EQ(policy.StepOfState(iteration), iteration > 0 ? steps : 0);
    std::vector<int> rates;  // steps by iteration
    for (int64_t i = iteration; i < 12; ++i) rates.push_back(policy.Step(i));
    return rates;
  };
  EXPECT_EQ(rates(6, 1), (std::vector<int>{1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(rates(6, 0), (std::vector<int>{0, 0, 1, 2, 2, 2}));
  EXPECT_EQ(rates(10, 0), (std::vector<int>{1, 2}));  // one step in an iteration
  EXPECT_EQ(rates(10, 5), (std::vector<int>{5, 5}));
  LrPolicy policy = Policy(text);
  policy.Resume(6, 1);
  EXPECT_EQ(policy.Notice(8), "");
  EXPECT_EQ(policy.Notice(9), "MultiStep Status: Iteration 9, step = 2");
  LrPolicy step = Policy("base_lr: 1 lr_policy: 'step' gamma: 0.1 stepsize: 3");
  step.Resume(7, 0);
  EXPECT_EQ(step.Step(7), 2);
}

TEST(LrPolicy, WarmsUpLinearlyWhateverThePolicy) {
  const LrPolicy policy = Policy(
      "base_lr: 0.5 lr_policy: 'step' gamma: 0.1 stepsize: 100 "
      "warmup_iter: 10 warmup_start_lr: 0.1");
  EXPECT_FLOAT_EQ(policy.Rate(0), 0.1f);
  EXPECT_FLOAT_EQ(policy.Rate(5), 0.3f);
  EXPECT_FLOAT_EQ(policy.Rate(9), 0.46f);
  EXPECT_FLOAT_EQ(policy.Rate(10), 0.5f);
  EXPECT_FLOAT_EQ(policy.Rate(100), 0.05f);
  EXPECT_EQ(Refusal("base_lr: 1 lr_policy: 'fixed' warmup_iter: -1"),
            "warmup_iter: -1 given, expected >= 0");
}

TEST(LrPolicy, MultifixedHasARateForEachStage) {
  const LrPolicy policy = Policy(
      "base_lr: 1 lr_policy: 'multifixed' stagelr: [0.001, 0.01, 0.0001] "
      "stageiter: [520, 16000, 24000]");
  EXPECT_FLOAT_EQ(policy.Rate(0), 0.001f);
  EXPECT_FLOAT_EQ(policy.Rate(520), 0.001f);
  EXPECT_FLOAT_EQ(policy.Rate(521), 0.01f);
  EXPECT_FLOAT_EQ(policy.Rate(16001), 0.0001f);
  EXPECT_FLOAT_EQ(policy.Rate(99999), 0.0001f);
  EXPECT_EQ(Refusal("lr_policy: 'multifixed'"),
            "stagelr: missing; lr_policy \"multifixed\" needs it");
  EXPECT_EQ(Refusal("lr_policy: 'multifixed' stagelr: [1, 2] stageiter: 5"),
            "stageiter: 1 given, expected 2, one for each stagelr");
}

TEST(LrPolicy, ExpFallsByGammaEveryIteration) {
  const LrPolicy policy = Policy("base_lr: 2 lr_policy: 'exp' gamma: 0.5");
  EXPECT_FLOAT_EQ(policy.Rate(0), 2);
  EXPECT_FLOAT_EQ(policy.Rate(3), 0.25f);
}

TEST(LrPolicy, InvFollowsItsFormula) {
  // LeNet's schedule; the value at 10,000 is calculated by hand: 1 + gamma * i = 2.
  const LrPolicy policy = Policy("base_lr: 0.01 lr_policy: 'inv' gamma: 0.0001 power: 0.75");
  EXPECT_FLOAT_EQ(policy.Rate(0), 0.01f);
  EXPECT_NEAR(policy.Rate(10000), 0.01 * 0.594603557, 1e-8);
}

TEST(LrPolicy, MultistepFallsAtEachStepvalue) {
  const LrPolicy policy = Policy(
      "base_lr: 1 lr_policy: 'multistep' gamma: 0.5 stepvalue: 10 stepvalue: 15 stepvalue: 40");
  EXPECT_FLOAT_EQ(policy.Rate(9), 1);
  EXPECT_FLOAT_EQ(policy.Rate(10), 0.5f);
  EXPECT_FLOAT_EQ(policy.Rate(14), 0.5f);
  EXPECT_FLOAT_EQ(policy.Rate(15), 0.25f);
  EXPECT_FLOAT_EQ(policy.Rate(1000), 0.125f);
  EXPECT_EQ(policy.Step(1000), 3);
}

TEST(LrPolicy, MultistepAnnouncesEachStepAtItsIterationOnly) {
  const LrPolicy policy =
      Policy("base_lr: 1 lr_policy: 'multistep' gamma: 0.5 stepvalue: 10 stepvalue: 15");
  EXPECT_EQ(policy.Notice(9), "");
  EXPECT_EQ(policy.Notice(10), "MultiStep Status: Iteration 10, step = 1");
  EXPECT_EQ(policy.Notice(11), "");
  EXPECT_EQ(policy.Notice(15), "MultiStep Status: Iteration 15, step = 2");
}

TEST(LrPolicy, PolyReachesZeroAtMaxIterAndStaysThere) {
  const LrPolicy policy = Policy("base_lr: 4 lr_policy: 'poly' power: 2 max_iter: 100");
  EXPECT_FLOAT_EQ(policy.Rate(0), 4);
  EXPECT_FLOAT_EQ(policy.Rate(50), 1);
  EXPECT_EQ(policy.Rate(100), 0);
  EXPECT_EQ(policy.Rate(103), 0);
}

TEST(LrPolicy, SigmoidIsHalfwayAtStepsize) {
  const LrPolicy policy = Policy("base_lr: 1 lr_policy: 'sigmoid' gamma: 0.1 stepsize: 50");
  EXPECT_FLOAT_EQ(policy.Rate(50), 0.5f);
  EXPECT_NEAR(policy.Rate(60), 1 / (1 + std::exp(-1.0)), 1e-6);
}

TEST(LrPolicy, GivesTheSameRateInWhateverOrderIterationsAreAsked) {
  const std::string schedules[] = {
      "base_lr: 1 lr_policy: 'step' gamma: 0.9 stepsize: 7",
      "base_lr: 1 lr_policy: 'multistep' gamma: 0.9 stepvalue: 3 stepvalue: 90 stepvalue: 91",
  };
  for (const std::string& text : schedules) {
    const LrPolicy asked_at_random = Policy(text);
    Rng rng(test::Seed(), {1});
    for (int i = 0; i < 200; ++i) {
      const auto iteration = static_cast<int64_t>(rng.Below(200));
      EXPECT_EQ(asked_at_random.Rate(iteration), Policy(text).Rate(iteration)) << iteration;
    }
  }
}

TEST(LrPolicy, RefusesAnUnknownPolicyAndListsTheKnownOnes) {
  EXPECT_EQ(Refusal("base_lr: 1 lr_policy: 'cosine'"),
            "lr_policy: there is no policy \"cosine\"; known: fixed, step, exp, inv, multistep, "
            "poly, sigmoid, multifixed");
  EXPECT_EQ(Refusal("base_lr: 1"),
            "lr_policy: missing, expected one of: fixed, step, exp, inv, multistep, poly, sigmoid, "
            "multifixed");
}

TEST(LrPolicy, RefusesAPolicyThatDependsOnTheLoss) {
  EXPECT_CONTAINS(Refusal("base_lr: 1 lr_policy: 'plateau' gamma: 0.1 plateau_winsize: 100"),
                  "lr_policy: \"plateau\" is not there: rates depend on the iteration alone");
}

// Caffe's own procedure: at most one step as each iteration begins.
TEST(LrPolicy, MultistepTakesStepvaluesInAnyOrderAsCaffeDoes) {
  for (const std::vector<int>& values : std::vector<std::vector<int>>{
           {10, 15, 40}, {30, 10, 20}, {5, 5, 5, 9}, {0, 0}, {-3, 7}, {20, 3, 21, 22}}) {
    std::string text = "base_lr: 1 lr_policy: 'multistep' gamma: 0.5";
    for (const int value : values) text += StrCat(" stepvalue: ", value);
    const LrPolicy policy = Policy(text);
    size_t step = 0;
    for (int iteration = 0; iteration < 60; ++iteration) {
      EXPECT_EQ(policy.StepOfState(iteration), static_cast<int32_t>(step)) << text << iteration;
      const bool steps = step < values.size() && iteration >= values[step];
      if (steps) ++step;
      EXPECT_EQ(policy.Step(iteration), static_cast<int32_t>(step)) << text << " " << iteration;
      EXPECT_FLOAT_EQ(policy.Rate(iteration), std::pow(0.5f, static_cast<float>(step)));
      EXPECT_EQ(policy.Notice(iteration) != "", steps) << text << " " << iteration;
    }
  }
}

TEST(LrPolicy, IsScaledByAFactorThatRisesFromOne) {
  LrPolicy policy = Policy("base_lr: 0.5 lr_policy: 'step' gamma: 0.1 stepsize: 1000");
  RateScale scale(RateScale::WarmupOf(10000));
  policy.ScaleBy(&scale);
  scale.Set(3);
  EXPECT_FLOAT_EQ(policy.Rate(0), 0.5f);
  EXPECT_FLOAT_EQ(policy.Rate(250), 1.0f);
  EXPECT_FLOAT_EQ(policy.Rate(500), 1.5f);
  EXPECT_FLOAT_EQ(policy.Rate(1000), 0.15f);
  scale.Set(8);  // too many for a twentieth of the run
  EXPECT_FLOAT_EQ(policy.Rate(400), 2.25f);
  EXPECT_FLOAT_EQ(policy.Rate(800), 4.0f);
  scale.Set(1);
  EXPECT_FLOAT_EQ(policy.Rate(250), 0.5f);
}

constexpr RateGrowth kLinear = RateGrowth::kLinear, kRoot = RateGrowth::kRoot;

TEST(RateScale, IsTheNumberOfNodesOrItsRoot) {
  for (const char* type : {"SGD", "Nesterov"})
    EXPECT_FLOAT_EQ(RateScale::FactorOf(GrowthOf(type), 4, 2), 4);
  for (const char* type : {"Adam", "RMSProp", "AdaGrad", "AdaDelta", "AdamW"}) {
    EXPECT_FLOAT_EQ(RateScale::FactorOf(GrowthOf(type), 4, 2), 2);
  }
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kLinear, 1, 1), 1);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kLinear, 4, 0), 1);
}

TEST(RateScale, IsBounded) {
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kLinear, 4, 2), 4);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kLinear, 5, 2), 4);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kLinear, 16, 2), 4);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kRoot, 9, 2), 3);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kRoot, 16, 2), 4);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kRoot, 49, 2), 4);
}

TEST(RateScale, IsSharedByTheSolversOfANode) {
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kLinear, 4, 2, 2), 2);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kLinear, 4, 2, 8), 1);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kRoot, 16, 2, 2), 2);
}

// Every node makes at most the progress of kMaxProgress iterations between two exchanges.
TEST(RateScale, FallsWithTheStalenessOfExchanges) {
  constexpr double kMax = RateScale::kMaxProgress;
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kLinear, 4, kMax), 4);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kLinear, 4, 2 * kMax), 2);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kLinear, 4, 4 * kMax), 1);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kLinear, 4, 400 * kMax), 1);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kRoot, 4, 2 * kMax), 2);
  EXPECT_FLOAT_EQ(RateScale::FactorOf(kRoot, 4, 3 * kMax), 4.0f / 3);
}

// So segments of such nodes leave no more of them to the solvers (segment/pace.h).
TEST(RateScale, IsWholeUpToTheIterationsThatThePaceAllows) {
  for (int nodes = kMinAveragingMembers; nodes <= kMaxAveragingMembers; ++nodes) {
    for (const char* type : {"SGD", "Adam"}) {
      const double staleness = std::max(nodes, 4) * kMaxAveragedIterations;
      EXPECT_FLOAT_EQ(RateScale::FactorOf(GrowthOf(type), nodes, staleness),
                      RateScale::FreshFactorOf(GrowthOf(type), nodes))
          << type << ' ' << nodes;
    }
  }
  EXPECT_LT(RateScale::FactorOf(kLinear, 3, 4.1 * kMaxAveragedIterations), 3);
  EXPECT_LT(RateScale::FactorOf(kLinear, 4, 4.1 * kMaxAveragedIterations), 4);
}

TEST(LrPolicy, SavesTheStepOfTheLastIteration) {
  const LrPolicy policy = Policy("base_lr: 0.5 lr_policy: 'step' gamma: 0.1 stepsize: 100");
  EXPECT_EQ(policy.StepOfState(0), 0);
  EXPECT_EQ(policy.StepOfState(100), 0);
  EXPECT_EQ(policy.StepOfState(101), 1);
}

TEST(LrPolicy, TakesFieldsThatAreNotGivenAsZero) {
  EXPECT_EQ(Policy("lr_policy: 'fixed'").Rate(3), 0);
  const LrPolicy step = Policy("base_lr: 1 lr_policy: 'step' stepsize: 5");
  EXPECT_EQ(step.Rate(4), 1);
  EXPECT_EQ(step.Rate(5), 0);
  const LrPolicy exponential = Policy("base_lr: 1 lr_policy: 'exp'");
  EXPECT_EQ(exponential.Rate(0), 1);
  EXPECT_EQ(exponential.Rate(1), 0);
  EXPECT_EQ(Policy("base_lr: 1 lr_policy: 'inv' gamma: 0.1").Rate(50), 1);
  EXPECT_EQ(Policy("base_lr: 1 lr_policy: 'inv' power: 2").Rate(50), 1);
  EXPECT_EQ(Policy("base_lr: 1 lr_policy: 'multistep' gamma: 0.1").Rate(50), 1);
  EXPECT_EQ(Policy("base_lr: 1 lr_policy: 'poly' max_iter: 9").Rate(5), 1);
  EXPECT_EQ(Policy("base_lr: 1 lr_policy: 'poly' power: 1").Rate(0), 0);
  EXPECT_EQ(Policy("base_lr: 1 lr_policy: 'sigmoid' stepsize: 9").Rate(50), 0.5f);
  EXPECT_EQ(Policy("base_lr: -1 lr_policy: 'fixed'").Rate(0), -1);
}

TEST(LrPolicy, RefusesWhatStopsCaffe) {
  EXPECT_EQ(Refusal("base_lr: 1 lr_policy: 'step' gamma: 0.1"),
            "stepsize: missing; lr_policy \"step\" needs it");
  EXPECT_EQ(Refusal("base_lr: 1 lr_policy: 'sigmoid' gamma: 1"),
            "stepsize: missing; lr_policy \"sigmoid\" needs it");
  EXPECT_EQ(Refusal("base_lr: 1 lr_policy: 'step' gamma: 1 stepsize: 0"),
            "stepsize: 0 given, expected > 0");
  EXPECT_EQ(Refusal("base_lr: 1 lr_policy: 'exp' gamma: -0.5"),
            "gamma: -0.5 given, expected a number >= 0");
  EXPECT_EQ(Refusal("base_lr: 1 lr_policy: 'exp' gamma: nan"),
            "gamma: nan given, expected a number >= 0");
}

}  // namespace
}  // namespace millrace
