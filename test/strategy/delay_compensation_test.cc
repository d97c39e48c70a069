// The gradient that delay compensation gives a rule.
#include "strategy/delay_compensation.h"

#include "solver/update_rule.h"
#include "strategy/hogwild.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

TEST(DelayCompensation, CorrectsAGradientByWhatOthersHaveMoved) {
  std::vector<float> weights = {1, 2, -3}, gradients = {0.5f, -2, 0};
  DelayCompensation compensation(0.25f, 1, 3);
  compensation.Begin(weights.data());
  weights = {2, 1.5f, 5};
  const float* const corrected = compensation.Correct(gradients.data(), weights.data());
  EXPECT_FLOAT_EQ(corrected[0], 0.5f + 0.25f * 0.25f * 1);
  EXPECT_FLOAT_EQ(corrected[1], -2 + 0.25f * 4 * -0.5f);
  EXPECT_EQ(corrected[2], 0);
  EXPECT_EQ(gradients, (std::vector<float>{0.5f, -2, 0}));
}

// The rule divides the sum over iter_size batches later.
TEST(DelayCompensation, OfASumOverSeveralBatchesIsThatOfTheirMean) {
  const float read = 1, now = 3, mean = 0.5f, sum = 4 * mean;
  DelayCompensation one(0.1f, 1, 1), four(0.1f, 4, 1);
  one.Begin(&read);
  four.Begin(&read);
  EXPECT_FLOAT_EQ(*four.Correct(&sum, &now), 4 * *one.Correct(&mean, &now));
}

TEST(DelayCompensation, OfNoneReturnsTheGradientItself) {
  const float weights = 1, gradient = 2;
  DelayCompensation none(0, 1, 1);
  none.Begin(&weights);
  EXPECT_EQ(none.Correct(&gradient, &weights), &gradient);
}

// w = w - rate * gradient.
class PlainRule : public UpdateRule {
 public:
  explicit PlainRule(int64_t size) : UpdateRule({{}, {}, size}, 0), size_(size) {}
  void Apply(float rate, float, const float* gradients, float* weights) override {
    for (int64_t i = 0; i < size_; ++i) weights[i] -= rate * gradients[i];
  }

 private:
  const int64_t size_;
};

TEST(DelayCompensation, IsOfAHogwildSolversUpdates) {
  ParamLayout layout;
  layout.Add("w/0", {1});
  const auto weights = WeightBuffer::CreatePrivate(layout);
  weights->data()[0] = 1;
  PlainRule rule(weights->size());
  HogwildStrategy strategy(weights.get(), nullptr, 0.5f, 1);
  std::vector<float> gradients(weights->size(), 0);
  gradients[0] = 2;
  ASSERT_TRUE(strategy.Claim(10));
  weights->data()[0] = 4;  // another solver
  strategy.Update(0.1f, gradients.data(), &rule);
  strategy.Complete();
  // g + lambda g g (w_now - w_read) = 2 + 0.5 * 4 * 3
  EXPECT_FLOAT_EQ(weights->data()[0], 4 - 0.1f * 8);
  // Alone, there is nothing to correct.
  ASSERT_TRUE(strategy.Claim(10));
  strategy.Update(0.1f, gradients.data(), &rule);
  EXPECT_FLOAT_EQ(weights->data()[0], 4 - 0.1f * 8 - 0.1f * 2);
}

}  // namespace
}  // namespace millrace::test
