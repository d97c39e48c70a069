// How soon workers together reach the accuracy of one: no change of the exchange, its damping or
// its default rule may make them slower unseen.
#include "test/simulate/simulate_support.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// Noisy images for a small convolutional net. The learning rate is so low that the number of
// iterations limits the accuracy: each further iteration of one worker helps. Accuracies of single
// runs have a standard deviation of 0.07, their differences to one worker with the same seed one of
// 0.025; and each type of processor has other numbers. So the tests compare means: that of eight
// workers is 0.016 below one worker's, four deviations of the mean within the tolerance.
class SimulatedLearning : public testing::Test {
 protected:
  static constexpr int kIterations = 1200;  // of one worker
  static constexpr int kRuns = 8;
  static constexpr double kTolerance = 0.05;  // of the mean of kRuns runs

  SimulatedLearning() : work_({.count = 2000, .side = 12, .classes = 10, .noise = 200}) {
    SmallNet net = work_.Net();
    net.classes = 10;
    net.convolution = true;
    net.test_batch = 100;
    work_.WriteNet(net);
  }

  // Mean accuracy after a 1 / `speedup` part of kIterations by each of the workers.
  double Accuracy(int workers, double speedup, bool scales = true) {
    const int total = static_cast<int>(workers * kIterations / speedup);
    auto solver = Workspace::Solver(total);
    solver.set_base_lr(0.002F);
    solver.clear_display();
    solver.set_lr_policy("multistep");
    solver.set_gamma(0.1F);
    solver.add_stepvalue(total * 4 / 5);
    solver.add_test_iter(10);
    solver.set_test_interval(total);
    solver.set_test_initialization(false);
    double sum = 0;
    for (int run = 0; run < kRuns; ++run) {
      solver.set_random_seed(7 + run);
      sum += Simulate(LoadSolverConfig(work_.Write("run", solver)),
                      {.workers = workers, .network = {100, 0.2, 0}, .scales = scales})
                 .accuracy;
    }
    return sum / kRuns;
  }

  Workspace work_;
};

TEST_F(SimulatedLearning, OneWorkerNeedsAllItsIterations) {
  EXPECT_LT(Accuracy(1, 2), Accuracy(1, 1) - 0.1);
}

TEST_F(SimulatedLearning, TwoWorkersLearnTwiceAsSoonAsOne) {
  EXPECT_GT(Accuracy(2, 2), Accuracy(1, 1) - kTolerance);
}

TEST_F(SimulatedLearning, FourWorkersLearnThreeTimesAsSoonAsOne) {
  EXPECT_GT(Accuracy(4, 3), Accuracy(1, 1) - kTolerance);
}

TEST_F(SimulatedLearning, EightWorkersLearnFourTimesAsSoonAsOne) {
  const double eight = Accuracy(8, 4);
  EXPECT_GT(eight, Accuracy(1, 1) - kTolerance);
  EXPECT_LT(Accuracy(8, 4, false), eight) << "the default gains nothing on this problem";
}

// Without scaling, diffs are damped: what four workers reach then.
TEST_F(SimulatedLearning, DampedWorkersLearnSoonerThanOneToo) {
  EXPECT_GT(Accuracy(4, 2, false), Accuracy(1, 2) + 0.05);
}

}  // namespace
}  // namespace millrace::test
