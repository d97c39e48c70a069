// Compares a run with the same arithmetic, done directly in double precision.
#include <cmath>

#include "test/train/naive_net.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

TEST(Reference, LossCurveAndWeightsFollowTheMathsOfSgdWithMomentumAndDecay) {
  const Images images;
  Workspace work(images);
  SmallNet net = work.Net();
  net.convolution = true;
  work.WriteNet(net);
  constexpr int kIterations = 25, kBatch = 8;
  caffe::SolverParameter solver = Workspace::Solver(kIterations);
  solver.set_weight_decay(0.01f);
  solver.set_lr_policy("inv");
  solver.set_gamma(0.1f);
  solver.set_power(0.75f);
  const auto losses = RunNamed(work, "run", solver).Losses();
  solver.set_max_iter(0);
  RunNamed(work, "start", solver);

  NaiveNet naive(LoadModel(work.Snapshot("start", 0) + ".caffemodel"));
  const std::vector<uint8_t> pixels = images.Pixels(), labels = images.Labels();
  constexpr int kArea = NaiveNet::kSide * NaiveNet::kSide;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    double loss = 0;
    for (int k = 0; k < kBatch; ++k) {
      const int record = (iteration * kBatch + k) % images.count;
      std::vector<double> image;
      for (int p = 0; p < kArea; ++p) image.push_back((pixels[record * kArea + p] - 128) / 128.0);
      loss += naive.AddExample(image, labels[record], kBatch) / kBatch;
    }
    EXPECT_NEAR(losses.at(iteration), loss, 1e-4) << "iteration " << iteration;
    naive.Step(0.05 * std::pow(1 + 0.1 * iteration, -0.75), 0.9, 0.01);
  }
  const std::vector<float> weights = WeightsOf(work, "run", kIterations);
  const std::vector<double> expected = naive.Weights();
  ASSERT_EQ(weights.size(), expected.size());
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], expected[i], 1e-4) << i;
  EXPECT_LT(losses.at(kIterations - 1), 0.5 * losses.at(0));
}

}  // namespace
}  // namespace millrace::test
