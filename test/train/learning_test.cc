// LeNet learns images with the shape of MNIST.
#include <google/protobuf/text_format.h>

#include "test/train/train_support.h"

namespace millrace::test {
namespace {

class Learning : public testing::TestWithParam<int> {};  // solvers

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
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(160), 160);
  solver.set_test_iter(0, 4);
  solver.set_base_lr(0.01f);
  const Outcome outcome = RunNamed(work, "run", solver, WithSolvers(GetParam()));
  ASSERT_EQ(outcome.Tests(), (std::vector<int64_t>{0, 160}));
  if (GetParam() == 1) {  // several solvers may already have trained when the first test runs
    EXPECT_LE(outcome.rows.at(1).test().outputs().at("accuracy"), 0.5);
  }
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.95);
}

INSTANTIATE_TEST_SUITE_P(Solvers, Learning, testing::Values(1, 2));

}  // namespace
}  // namespace millrace::test
