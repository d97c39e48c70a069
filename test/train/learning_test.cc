// LeNet learns images with the shape of MNIST.
#include <google/protobuf/text_format.h>

#include <utility>

#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// Solvers, and the fields of the strategy.
class Learning : public testing::TestWithParam<std::pair<int, const char*>> {};

TEST_P(Learning, LenetTellsTenNoisyPatternsApart) {
  Images images;
  images.side = 28;
  images.classes = 10;
  images.count = 400;
  images.noise = 120;
  Workspace work(images);
  caffe::NetParameter lenet;
  LoadText("examples/mnist/lenet_train_test.prototxt", &lenet, nullptr);
  for (int i : {0, 1}) {
    caffe::DataParameter* data = lenet.mutable_layer(i)->mutable_data_param();
    ASSERT_EQ(data->source_size(), 1);
    data->set_source(0, work / (i == 0 ? "train_lmdb" : "test_lmdb"));
    data->set_batch_size(i == 0 ? 16 : 50);
  }
  std::string text;
  google::protobuf::TextFormat::PrintToString(lenet, &text);
  work.WriteNet(text);
  // The mean of two solvers takes half as many steps.
  const int iterations = GetParam().second[0] == 0 ? 160 : 320;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(iterations), iterations);
  solver.set_test_iter(0, 4);
  solver.set_base_lr(0.01f);
  ASSERT_TRUE(
      google::protobuf::TextFormat::ParseFromString(GetParam().second, solver.mutable_strategy()));
  const Outcome outcome = RunNamed(work, "run", solver, WithSolvers(GetParam().first));
  ASSERT_EQ(outcome.Tests(), (std::vector<int64_t>{0, iterations}));
  if (GetParam().first == 1) {  // several solvers may already have trained when the first test runs
    EXPECT_LE(outcome.rows.at(1).test().outputs().at("accuracy"), 0.5);
  }
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.95);
}

INSTANTIATE_TEST_SUITE_P(Solvers, Learning,
                         testing::Values(std::pair(1, ""), std::pair(2, ""),
                                         std::pair(2, "type: 'gossip'"),
                                         std::pair(3,
                                                   "type: 'gossip' merge_rule { type: 'noloco' } "
                                                   "sync_condition { type: 'steps' param { key: "
                                                   "'every' value: 10 } }")));

}  // namespace
}  // namespace millrace::test
