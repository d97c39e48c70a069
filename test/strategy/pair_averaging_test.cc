// Solvers that average their weights in pairs: the mean of all, the draws, and what conditions see.
#include "strategy/pair_averaging.h"

#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "base/rng.h"
#include "test/support/fake_clock.h"
#include "test/support/strategy_parts.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// w = w - rate * gradient.
class PairAveragingPlainRule : public UpdateRule {
 public:
  explicit PairAveragingPlainRule(int64_t size) : UpdateRule({{}, {}, size}, 0), size_(size) {}
  void Apply(float rate, float look_ahead, const float* gradients, float* weights) override {
    EXPECT_EQ(look_ahead, 0);
    for (int64_t i = 0; i < size_; ++i) weights[i] -= rate * gradients[i];
  }

 private:
  const int64_t size_;
};

// The solvers of a problem with one weight w and gradient w - goal.
struct Team {
  Team(int solvers, int every, uint64_t seed, int64_t count = 1,
       std::optional<NoLoCo> merge_rule = {})
      : run(Weights(count, 1)), team(run.get(), solvers, seed, merge_rule), rule(run->size()) {
    for (int i = 0; i < solvers; ++i) {
      SyncConditions conditions;
      if (every > 0) conditions.Add(std::make_unique<Every>(every));
      solver.push_back(std::make_unique<PairAveraging>(&team, i, std::move(conditions), &clock));
    }
  }
  void Step(int i, float rate, float goal) {
    std::vector<float> gradients(run->size(), 0);
    for (int64_t k = 0; k < run->size(); ++k) gradients[k] = solver[i]->weights()[k] - goal;
    ASSERT_TRUE(solver[i]->Claim(1'000'000));
    solver[i]->Update(rate, gradients.data(), &rule);
    solver[i]->Complete();
  }

  FakeClock clock;
  std::unique_ptr<WeightBuffer> run;
  PairTeam team;
  PairAveragingPlainRule rule;
  std::vector<std::unique_ptr<PairAveraging>> solver;
};

// The model of Lian et al.: a gradient step on one's own weights, then the mean with a partner.
TEST(PairAveraging, IsAScalarModelWithTheSameDraws) {
  constexpr int kSolvers = 4;
  Team team(kSolvers, 2, Seed());
  double w[kSolvers] = {1, 1, 1, 1};
  uint64_t rounds[kSolvers] = {};
  const float goals[kSolvers] = {-1, 0.5f, 2, 3};
  Rng turns(Seed(), {3});
  int steps[kSolvers] = {};
  for (int k = 0; k < 200; ++k) {
    const auto i = static_cast<int>(turns.Below(kSolvers));
    w[i] -= 0.1f * (w[i] - goals[i]);
    if (++steps[i] % 2 == 0) {
      const int j = team.team.PartnerOf(i, rounds[i]++);
      ASSERT_NE(i, j);
      w[i] = w[j] = (w[i] + w[j]) / 2;
    }
    team.Step(i, 0.1f, goals[i]);
    for (int each = 0; each < kSolvers; ++each) {
      ASSERT_NEAR(team.solver[each]->weights()[0], w[each], 1e-5) << k;
    }
  }
  EXPECT_EQ(team.run->clock().global(), 200);
}

TEST(PairAveraging, ByNoLoCoIsItsScalarModel) {
  constexpr int kSolvers = 3;
  struct Own {
    double w = 1, slow = 1, velocity = 0;
  };
  for (const NoLoCo& rule : {NoLoCo{0.5, 0.7, 1}, NoLoCo{0.9, 0.3, 0.5}, NoLoCo{0, 1, 1}}) {
    Team team(kSolvers, 2, Seed(), 1, rule), mean(kSolvers, 2, Seed());
    const bool is_mean = rule.momentum == 0 && rule.rate == 1 && rule.pull == 1;
    Own own[kSolvers];
    uint64_t rounds[kSolvers] = {};
    int steps[kSolvers] = {};
    const float goals[kSolvers] = {-1, 0.5f, 2};
    Rng turns(Seed(), {5});
    for (int k = 0; k < 120; ++k) {
      const auto i = static_cast<int>(turns.Below(kSolvers));
      own[i].w -= 0.1f * (own[i].w - goals[i]);
      if (++steps[i] % 2 == 0) {
        const int j = team.team.PartnerOf(i, rounds[i]++);
        const double gain = (own[i].w - own[i].slow + own[j].w - own[j].slow) / 2;
        const double slow = (own[i].slow + own[j].slow) / 2;
        for (Own* each : {&own[i], &own[j]}) {
          each->velocity =
              rule.momentum * each->velocity + rule.rate * gain - rule.pull * (each->slow - slow);
          each->w = each->slow += each->velocity;
        }
      }
      team.Step(i, 0.1f, goals[i]);
      if (is_mean) mean.Step(i, 0.1f, goals[i]);
      for (int each = 0; each < kSolvers; ++each) {
        ASSERT_NEAR(team.solver[each]->weights()[0], own[each].w, 1e-4) << k;
        if (!is_mean) continue;
        ASSERT_NEAR(mean.solver[each]->weights()[0], own[each].w, 1e-4) << k;
      }
    }
  }
}

TEST(PairAveraging, DrawsEachOtherSolverAndRepeatsItsDraws) {
  Team team(5, 0, 17), same(5, 0, 17), other(5, 0, 18);
  for (int i = 0; i < 5; ++i) {
    std::set<int> drawn;
    bool differs = false;
    for (uint64_t round = 0; round < 100; ++round) {
      const int partner = team.team.PartnerOf(i, round);
      EXPECT_EQ(same.team.PartnerOf(i, round), partner);
      differs |= other.team.PartnerOf(i, round) != partner;
      drawn.insert(partner);
    }
    EXPECT_TRUE(differs);
    EXPECT_EQ(drawn.size(), 4u);
    EXPECT_EQ(drawn.count(i), 0u);
  }
}

TEST(PairAveraging, AMergeLeavesTheMeanAndLowersTheVariance) {
  constexpr int kSolvers = 6;
  Team team(kSolvers, 0, Seed());
  Rng rng(Seed(), {4});
  for (auto& each : team.solver) each->weights()[0] = rng.Gaussian();
  const auto moments = [&] {
    double sum = 0, squares = 0;
    for (auto& each : team.solver) sum += each->weights()[0];
    for (auto& each : team.solver) squares += std::pow(each->weights()[0] - sum / kSolvers, 2);
    return std::pair(sum / kSolvers, squares);
  };
  const auto [mean, first] = moments();
  double before = first;
  for (uint64_t round = 0; round < 60; ++round) {
    const int i = static_cast<int>(round) % kSolvers, j = team.team.PartnerOf(i, round);
    team.team.Average(i, j);
    EXPECT_EQ(team.solver[i]->weights()[0], team.solver[j]->weights()[0]);
    const auto [now, squares] = moments();
    EXPECT_NEAR(now, mean, 1e-5);
    EXPECT_LE(squares, before + 1e-6);
    before = squares;
  }
  EXPECT_LT(before, first / 100);
}

TEST(PairAveraging, FlushSetsTheRunToTheMeanHoweverOften) {
  Team team(3, 1000, Seed());
  const float goals[] = {-1, 0.5f, 4};
  for (int i = 0; i < 3; ++i) team.Step(i, 0.5f, goals[i]);
  EXPECT_EQ(team.run->data()[0], 1);
  const double mean = (0.0 + 0.75 + 2.5) / 3;
  for (int i = 0; i < 3; ++i) {
    team.solver[i]->Flush();
    EXPECT_NEAR(team.run->data()[0], mean, 1e-6);
  }
  EXPECT_EQ(team.solver[0]->weights()[0], 0);  // its own weights are as they were
  team.solver[0].reset();
  team.solver[2]->Flush();
  EXPECT_NEAR(team.run->data()[0], mean, 1e-6);  // a solver that has ended still counts
  EXPECT_EQ(team.run->clock().solvers(), 2);
}

TEST(PairAveraging, TellsItsConditionsWhatHasHappenedSinceItsLastMerge) {
  const auto run = Weights(1, 1);
  PairTeam team(run.get(), 2, Seed());
  FakeClock clock;
  std::vector<SyncState> seen;
  SyncConditions conditions;
  conditions.Add(std::make_unique<Every>(2, &seen));
  PairAveraging solver(&team, 0, std::move(conditions), &clock);
  PairAveragingPlainRule rule(run->size());
  std::vector<float> gradients(run->size(), 0);
  for (int i = 0; i < 3; ++i) {
    clock.AdvanceSeconds(1);
    run->clock().TakeRemote(4);  // iterations of others
    ASSERT_TRUE(solver.Claim(1000));
    solver.Update(1, gradients.data(), &rule);
    solver.Complete();
  }
  ASSERT_EQ(seen.size(), 3u);
  const int64_t iterations[] = {1, 2, 1}, all[] = {5, 10, 5};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(seen[i].iterations, iterations[i]);
    EXPECT_EQ(seen[i].shared_iterations, all[i]);
    EXPECT_DOUBLE_EQ(seen[i].seconds, static_cast<double>(iterations[i]));
    EXPECT_EQ(seen[i].weights.size(), static_cast<size_t>(run->size()));
  }
}

// Whole numbers, whose sums are exact: no update is lost while others average the same weights. The
// updates hold the solver's lock, as those of real rules do.
TEST(PairAveraging, LosesNothingBetweenThreads) {
  constexpr int kSolvers = 4, kSteps = 300;
  constexpr int64_t kWeights = 9000;
  const auto run = Weights(kWeights, 0);
  PairTeam team(run.get(), kSolvers, Seed());
  FakeClock clock;
  caffe::SolverParameter param;
  // Made here: protobuf makes the defaults of string fields at their first use.
  std::vector<std::unique_ptr<UpdateRule>> rules;
  for (int t = 0; t < kSolvers; ++t) {
    rules.push_back(
        UpdateRuleRegistry::Get().Create(param, {{"w", {kWeights}, 0, kWeights}}, run->size()));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kSolvers; ++t) {
    threads.emplace_back([&, t] {
      PairAveraging solver(&team, t, SyncConditions(), &clock);
      UpdateRule* const rule = rules[t].get();
      solver.Prepare(rule);
      std::vector<float> gradients(run->size(), 0);
      std::fill_n(gradients.begin(), kWeights, -1024.0f);
      for (int i = 0; i < kSteps; ++i) {
        ASSERT_TRUE(solver.Claim(1'000'000));
        solver.Update(1, gradients.data(), rule);
        solver.Complete();
        if (i % 50 == 0) solver.Publish();
      }
      solver.Flush();
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Each step adds 1024 to one of the four arrays; rounding of halves is far below that.
  for (int64_t i = 0; i < kWeights; ++i) ASSERT_NEAR(run->data()[i], 1024.0 * kSteps, 100) << i;
}

}  // namespace
}  // namespace millrace::test
