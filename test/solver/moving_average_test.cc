#include "solver/moving_average.h"

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace {
namespace {

TEST(MovingAverage, IsTheLastLossWhenItsSizeIsOne) {
  MovingAverage window(1);
  window.Add(3);
  EXPECT_EQ(window.Mean(), 3);
  window.Add(5);
  EXPECT_EQ(window.Mean(), 5);
}

TEST(MovingAverage, IsTheMeanOfWhatThereIsUntilItIsFull) {
  MovingAverage window(3);
  EXPECT_EQ(window.Mean(), 0);
  window.Add(1);
  EXPECT_EQ(window.Mean(), 1);
  window.Add(2);
  EXPECT_EQ(window.Mean(), 1.5f);
  window.Add(6);
  EXPECT_EQ(window.Mean(), 3);
}

TEST(MovingAverage, ForgetsTheOldestLossOnceItIsFull) {
  MovingAverage window(3);
  for (float loss : {100.0f, 1.0f, 2.0f, 6.0f}) window.Add(loss);
  EXPECT_EQ(window.Mean(), 3);
}

TEST(MovingAverage, RecoversOnceALossThatIsNotANumberHasLeft) {
  MovingAverage window(2);
  window.Add(std::numeric_limits<float>::quiet_NaN());
  window.Add(1);
  EXPECT_TRUE(std::isnan(window.Mean()));
  window.Add(3);
  EXPECT_EQ(window.Mean(), 2);
}

// Caffe updates its mean incrementally: it averages all losses until the window is full, and then
// adds the difference between the new loss and the one that it replaces.
TEST(MovingAverage, AgreesWithTheRunningMeanThatCaffeKeeps) {
  Rng rng(test::Seed(), {1});
  const int size = 1 + static_cast<int>(rng.Below(20));
  MovingAverage window(size);
  std::vector<double> held;
  double running = 0;
  for (int i = 0; i < 200; ++i) {
    const float loss = 10 * rng.Uniform();
    if (static_cast<int>(held.size()) < size) {
      held.push_back(loss);
      const auto n = static_cast<double>(held.size());
      running = (running * (n - 1) + loss) / n;
    } else {
      running += (loss - held[i % size]) / size;
      held[i % size] = loss;
    }
    window.Add(loss);
    EXPECT_NEAR(window.Mean(), running, 1e-4) << "after " << i << " of window " << size;
  }
}

}  // namespace
}  // namespace millrace
