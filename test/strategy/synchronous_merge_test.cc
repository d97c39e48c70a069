// The formulas of synchronous merges against a scalar model in double precision.
#include "strategy/synchronous_merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <tuple>
#include <vector>

namespace millrace::test {
namespace {

using Rule = SynchronousMergeConfig::Rule;

// One weight, which solver i of N pulls to its own target with plain SGD between merges.
struct Model {
  SynchronousMergeConfig config;
  double center = 0, velocity = 0;
  std::vector<double> weights;

  void Step(const std::vector<double>& targets, double rate) {
    for (size_t i = 0; i < weights.size(); ++i) weights[i] -= rate * (weights[i] - targets[i]);
  }
  void Merge() {
    const auto n = static_cast<double>(weights.size());
    double sum = 0;
    for (const double each : weights) sum += each - center;
    switch (config.rule) {
      case Rule::kAdditive:
        center += sum;
        break;
      case Rule::kAverage:
        center += sum / n;
        break;
      case Rule::kElastic:
        for (double& each : weights) each -= double{config.pull} * (each - center);
        center += double{config.pull} * sum;
        return;
      case Rule::kOuter:
        velocity = double{config.momentum} * velocity + sum / n;
        center += double{config.rate} *
                  (config.nesterov ? sum / n + double{config.momentum} * velocity : velocity);
    }
    for (double& each : weights) each = center;
  }
};

class SynchronousMergePlainRule : public UpdateRule {
 public:
  explicit SynchronousMergePlainRule(int64_t size) : UpdateRule({{}, {}, size}, 0) {}
  void Apply(float rate, float /*look_ahead*/, const float* gradients, float* weights) override {
    weights[0] -= rate * gradients[0];
  }
};

constexpr float kRate = 0.1f;
constexpr int kIterations = 23;

std::vector<double> Targets(int solvers) {
  std::vector<double> targets;
  for (int i = 0; i < solvers; ++i) targets.push_back(1 + i * i);
  return targets;
}

// The weight after each iteration's merge, or after that of the last one.
std::vector<double> Expected(const SynchronousMergeConfig& config, int solvers) {
  Model model{.config = config, .weights = std::vector<double>(solvers)};
  std::vector<double> centers;
  for (int i = 1; i <= kIterations; ++i) {
    model.Step(Targets(solvers), double{kRate});
    if (i % config.every == 0 || i == kIterations) model.Merge();
    centers.push_back(model.center);
  }
  return centers;
}

std::vector<double> Centers(const SynchronousMergeConfig& config, int solvers) {
  ParamLayout layout;
  layout.Add("w/0", {1});
  const auto weights = WeightBuffer::CreatePrivate(layout);
  AllreduceTeam team(weights.get(), solvers, nullptr, {});
  const std::vector<double> targets = Targets(solvers);
  std::vector<double> centers;
  std::vector<std::thread> threads;
  for (int index = 0; index < solvers; ++index) {
    threads.emplace_back([&, index] {
      SynchronousMergeStrategy strategy(&team, index, config);
      SynchronousMergePlainRule rule(weights->size());
      strategy.Prepare(&rule);
      std::vector<float> gradients(weights->size());
      while (strategy.Claim(kIterations)) {
        gradients[0] = strategy.weights()[0] - static_cast<float>(targets[index]);
        strategy.OnGradients(gradients.data(), 0);
        strategy.Update(kRate, gradients.data(), &rule);
        strategy.Complete();
        if (index == 0) centers.push_back(double{weights->data()[0]});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return centers;
}

class SynchronousMerge : public testing::TestWithParam<std::tuple<Rule, int>> {};

TEST_P(SynchronousMerge, FollowsItsFormula) {
  const auto [rule, every] = GetParam();
  for (const int solvers : {1, 2, 4}) {
    for (const bool nesterov : {false, true}) {
      const SynchronousMergeConfig config{.every = every,
                                          .rule = rule,
                                          .pull = 0.2f,
                                          .rate = 0.5f,
                                          .momentum = 0.75f,
                                          .nesterov = nesterov};
      const std::vector<double> expected = Expected(config, solvers);
      const std::vector<double> centers = Centers(config, solvers);
      ASSERT_EQ(centers.size(), expected.size());
      for (size_t i = 0; i < centers.size(); ++i) {
        EXPECT_NEAR(centers[i], expected[i], 1e-4 * (1 + std::abs(expected[i])))
            << solvers << " solvers, iteration " << i << ", nesterov " << nesterov;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, SynchronousMerge,
                         testing::Combine(testing::Values(Rule::kAdditive, Rule::kAverage,
                                                          Rule::kElastic, Rule::kOuter),
                                          testing::Values(1, 4, 100)));

}  // namespace
}  // namespace millrace::test
