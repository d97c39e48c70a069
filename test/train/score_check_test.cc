#include "train/evaluation/score_check.h"

#include <gtest/gtest.h>

#include <limits>

#include "test/support/support.h"

namespace millrace {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

OutputMean Loss(double mean, float weight = 1) { return {"loss", mean, weight, false}; }
OutputMean Accuracy(double mean) { return {"accuracy", mean, 0, true}; }

TestScores At(int64_t iteration, std::vector<OutputMean> outputs) {
  Evaluation net;
  net.outputs = std::move(outputs);
  return {iteration, {net}};
}

bool IsWorse(const OutputMean& before, const OutputMean& last) {
  return !ScoreLoss(At(550, {before}), At(600, {last}), "the model at m").empty();
}

TEST(ScoreLoss, NamesBothTestsAndTheModel) {
  const std::string line = ScoreLoss(At(550, {Loss(0.7), Accuracy(0.764)}),
                                     At(600, {Loss(0.8), Accuracy(0.112)}), "the model at m");
  EXPECT_EQ(line.find("test net #0: accuracy is 0.112 at the end, iteration 600, after 0.764 at "
                      "iteration 550: the model at m is worse than the run was; "),
            0u)
      << line;
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(ScoreLoss, IsOfALossThatHasMoreThanDoubled) {
  EXPECT_FALSE(IsWorse(Loss(1), Loss(2.09)));
  EXPECT_TRUE(IsWorse(Loss(1), Loss(2.11)));
  EXPECT_FALSE(IsWorse(Loss(0.001), Loss(0.1)));
  EXPECT_TRUE(IsWorse(Loss(0.001), Loss(0.11)));
  EXPECT_FALSE(IsWorse(Loss(3), Loss(0.1)));
  // The same margin applies to a negative loss.
  EXPECT_FALSE(IsWorse(Loss(-1), Loss(0.05)));
  EXPECT_TRUE(IsWorse(Loss(-1), Loss(0.15)));
  // Any change of an output outside the objective is allowed.
  EXPECT_FALSE(IsWorse(Loss(1, 0), Loss(50, 0)));
}

TEST(ScoreLoss, IsOfALossThatIsNotFinite) {
  for (const double value : {kNan, kInf, -kInf}) {
    EXPECT_TRUE(IsWorse(Loss(1), Loss(value)));
    EXPECT_CONTAINS(ScoreLoss(std::nullopt, At(600, {Loss(value)}), "m"), "iteration 600: m is");
    // The earlier score was no better.
    EXPECT_FALSE(IsWorse(Loss(value), Loss(1)));
    EXPECT_FALSE(IsWorse(Loss(1, 0), Loss(value, 0)));
  }
}

TEST(ScoreLoss, IsOfAnAccuracyWhoseErrorsHaveGrownByHalf) {
  EXPECT_TRUE(IsWorse(Accuracy(0.9), Accuracy(0.79)));
  EXPECT_FALSE(IsWorse(Accuracy(0.9), Accuracy(0.81)));  // twice the errors, but only 0.09 less
  EXPECT_FALSE(IsWorse(Accuracy(0.5), Accuracy(0.3)));   // only 1.4 times the errors
  EXPECT_TRUE(IsWorse(Accuracy(0.5), Accuracy(0.2)));
  EXPECT_FALSE(IsWorse(Accuracy(0.2), Accuracy(0.9)));
  // A value that only looks like an accuracy may decrease.
  EXPECT_FALSE(IsWorse({"error", 0.9, 0, false}, {"error", 0.1, 0, false}));
}

TEST(ScoreLoss, NeedsATestToCompareWith) {
  const TestScores last = At(600, {Loss(50), Accuracy(0.1)});
  EXPECT_EQ(ScoreLoss(std::nullopt, last, "m"), "");
  EXPECT_EQ(ScoreLoss(TestScores{550, {}}, last, "m"), "");
  EXPECT_EQ(ScoreLoss(At(550, {Loss(1)}), last, "m"), "");  // of a different net
  EXPECT_EQ(ScoreLoss(At(550, {Loss(1)}), {600, {}}, "m"), "");
}

TEST(ScoreLoss, LooksAtEachTestNet) {
  TestScores before = At(550, {Accuracy(0.9)}), last = At(600, {Accuracy(0.9)});
  before.nets.push_back(before.nets[0]);
  last.nets.push_back(At(600, {Accuracy(0.1)}).nets[0]);
  EXPECT_EQ(ScoreLoss(before, last, "m").find("test net #1: accuracy is 0.1 at the end"), 0u);
}

}  // namespace
}  // namespace millrace
