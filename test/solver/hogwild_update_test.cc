#include "solver/hogwild_update.h"

#include <cmath>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace {
namespace {

constexpr float kUntouched = 12345.5f;

std::vector<Simd> Supported() {
  std::vector<Simd> all;
  for (Simd simd : {Simd::kBaseline, Simd::kAvx2, Simd::kAvx512}) {
    if (SimdSupported(simd)) all.push_back(simd);
  }
  return all;
}

double Sign(double x) { return (x > 0) - (x < 0); }

// Makes one random step at an odd address. Checks every element against double precision, and that
// memory around the range is unchanged.
void CheckOneStep(Simd simd, bool l1, int64_t count, Rng* rng) {
  const auto shift = static_cast<int64_t>(1 + rng->Below(15));
  std::vector<float> g(count + 32, kUntouched), h = g, w = g;
  SgdStep step;
  step.rate = rng->Uniform();
  step.momentum = rng->Uniform();
  step.scale = rng->Uniform();
  step.decay = rng->Uniform();
  step.ahead = rng->Below(2) == 0 ? 0 : rng->Uniform();
  for (int64_t i = shift; i < shift + count; ++i) {
    g[i] = rng->Gaussian(), h[i] = rng->Gaussian();
    w[i] = rng->Below(4) == 0 ? 0 : rng->Gaussian();
  }
  const std::vector<float> g0 = g, h0 = h, w0 = w;
  (l1 ? HogwildUpdateSgdL1 : HogwildUpdateSgdL2)(step, count, &g[shift], &h[shift], &w[shift],
                                                 simd);
  EXPECT_EQ(g, g0);
  for (int64_t i = 0; i < static_cast<int64_t>(g.size()); ++i) {
    if (i < shift || i >= shift + count) {
      ASSERT_EQ(h[i], kUntouched) << i;
      ASSERT_EQ(w[i], kUntouched) << i;
      continue;
    }
    const double pull = l1 ? Sign(w0[i]) : w0[i];
    const double next = double{step.momentum} * h0[i] +
                        step.rate * (double{step.scale} * g0[i] + step.decay * pull);
    const double move = next + step.ahead * (next - h0[i]);
    ASSERT_NEAR(h[i], next, 1e-5) << "element " << i << " of " << count;
    ASSERT_NEAR(w[i], w0[i] - move, 2e-5) << "element " << i << " of " << count;
  }
}

TEST(HogwildUpdate, FollowsTheFormulaForEveryLengthAndInstructionSet) {
  Rng rng(test::Seed(), {1});
  for (Simd simd : Supported()) {
    for (int64_t count = 0; count < 70; ++count) {
      CheckOneStep(simd, false, count, &rng);
      CheckOneStep(simd, true, count, &rng);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(HogwildUpdate, PicksAnInstructionSetThatThisProcessorHas) {
  EXPECT_TRUE(SimdSupported(BestSimd()));
}

TEST(HogwildUpdate, LosesUpdatesAtMostWhenThreadsWriteTheSameWeights) {
  constexpr int kSteps = 2000;
  constexpr int64_t kCount = 100;
  const std::vector<float> gradients(kCount, 1.0f);
  std::vector<float> weights(kCount, 0.0f);
  const auto descend = [&] {
    std::vector<float> history(kCount);
    SgdStep step;
    step.rate = 1;
    for (int i = 0; i < kSteps; ++i) {
      HogwildUpdateSgdL2(step, kCount, gradients.data(), history.data(), weights.data());
    }
  };
  std::thread one(descend), other(descend);
  one.join();
  other.join();
  // Updates may be lost, but each weight decreases in whole steps and is never torn.
  for (float weight : weights) {
    EXPECT_EQ(weight, std::floor(weight));
    EXPECT_LE(weight, -1);
    EXPECT_GE(weight, -2 * kSteps);
  }
}

TEST(SumOfSquares, AgreesWithDoublesForEveryInstructionSet) {
  Rng rng(test::Seed(), {2});
  for (Simd simd : Supported()) {
    for (int64_t count : {0, 1, 15, 16, 17, 63, 64, 4095, 4096, 4097, 10000}) {
      std::vector<float> values(count + 1);
      double expected = 0;
      for (int64_t i = 1; i <= count; ++i) {
        values[i] = rng.Gaussian();
        expected += double{values[i]} * values[i];
      }
      EXPECT_NEAR(SumOfSquares(count, values.data() + 1, simd), expected, 1e-5 * (1 + expected));
    }
  }
}

}  // namespace
}  // namespace millrace
