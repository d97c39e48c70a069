#include "train/evaluation/evaluator.h"

#include "data/data_service.h"
#include "test/support/problem.h"
#include "weights/weight_buffer.h"

namespace millrace::test {
namespace {

class Evaluating : public testing::Test {
 protected:
  Evaluating() : data_(DataOptions{}) {
    caffe::NetParameter param;
    SourceMap source;
    LoadText(work_ / "net.prototxt", &param, &source);
    BuiltNetOptions options;
    options.state.set_phase(caffe::TEST);
    options.data = &data_;
    net_ = std::make_unique<BuiltNet>(param, source, options);
    weights_ = WeightBuffer::CreatePrivate(net_->layout());
    net_->BindWeights(weights_->data());
    net_->FillWeights();
  }

  Workspace work_;
  DataService data_;
  std::unique_ptr<BuiltNet> net_;
  std::unique_ptr<WeightBuffer> weights_;
};

TEST_F(Evaluating, AveragesEachOutputOverTheBatches) {
  std::vector<double> sums(2, 0);
  std::vector<std::string> names;
  int observed = 0;
  const Evaluation result = Evaluate(
      net_.get(), 5, [] { return false; },
      [&](int batch, const std::vector<OutputMean>& outputs) {
        EXPECT_EQ(batch, observed++);
        ASSERT_EQ(outputs.size(), 2u);
        for (size_t i = 0; i < 2; ++i) sums[i] += outputs[i].mean;
      });
  EXPECT_EQ(observed, 5);
  EXPECT_EQ(result.batches, 5);
  ASSERT_EQ(result.outputs.size(), 2u);
  EXPECT_EQ(result.outputs[0].name, "accuracy");
  EXPECT_EQ(result.outputs[0].loss_weight, 0);
  EXPECT_EQ(result.outputs[1].name, "loss");
  EXPECT_EQ(result.outputs[1].loss_weight, 1);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(result.outputs[i].mean, sums[i] / 5, 1e-9);
  EXPECT_NEAR(result.loss, result.outputs[1].mean, 1e-6);
  EXPECT_GT(result.loss, 0.1);
}

TEST_F(Evaluating, StopsBetweenBatchesAndAveragesThoseDone) {
  int asked = 0;
  const Evaluation result = Evaluate(net_.get(), 5, [&] { return asked++ == 2; });
  EXPECT_EQ(result.batches, 2);
  EXPECT_GT(result.loss, 0.1);
}

TEST_F(Evaluating, NoBatchesGiveZeros) {
  const Evaluation result = Evaluate(net_.get(), 5, [] { return true; });
  EXPECT_EQ(result.batches, 0);
  EXPECT_EQ(result.loss, 0);
  EXPECT_EQ(result.outputs.at(0).mean, 0);
}

TEST_F(Evaluating, GoesOnInTheDataWhereTheLastOneEnded) {
  // Two batches of 16 are the whole test set, so every second one-batch evaluation uses the same
  // images.
  std::vector<double> losses;
  for (int i = 0; i < 4; ++i) {
    losses.push_back(Evaluate(net_.get(), 1, [] { return false; }).loss);
  }
  EXPECT_EQ(losses[0], losses[2]);
  EXPECT_EQ(losses[1], losses[3]);
  EXPECT_NE(losses[0], losses[1]);
}

TEST(LossNote, IsThereForOutputsThatCountInTheObjective) {
  EXPECT_EQ(LossNote(0, 3), "");
  EXPECT_EQ(LossNote(1, 0.5), " (* 1 = 0.5 loss)");
  EXPECT_EQ(LossNote(0.25, 2), " (* 0.25 = 0.5 loss)");
}

}  // namespace
}  // namespace millrace::test
