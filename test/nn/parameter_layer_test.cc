#include "test/nn/loss_support.h"
#include "test/nn/net_support.h"

namespace millrace::test {
namespace {

const char kText[] = "type: 'Parameter' parameter_param { shape { dim: 2 dim: 3 } }";

TEST(ParameterLayer, ShowsItsArrayAndTakesItsGradient) {
  const auto runner = RunnerOf(kText, {});
  EXPECT_EQ(runner->top().shape(), (Shape{2, 3}));
  EXPECT_EQ(runner->Output(), Array(6, 0.0));
  SetData({1, 2, 3, 4, 5, 6}, &runner->param(0));
  EXPECT_EQ(runner->Output(), (Array{1, 2, 3, 4, 5, 6}));
  SetDiff(Array(6, 1e6), &runner->param(0));
  runner->Backward({6, 5, 4, 3, 2, 1});
  EXPECT_EQ(GetDiff(runner->param(0)), (Array{6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(runner->CheckGradients(), "");
}

TEST(ParameterLayer, KeepsItsArrayWhenTheTopIsChangedInPlace) {
  const auto runner = RunnerOf(kText, {});
  SetData({1, 2, 3, 4, 5, 6}, &runner->param(0));
  runner->Forward();
  SetData(Array(6, 9.0), &runner->top());
  EXPECT_EQ(GetData(runner->param(0)), (Array{1, 2, 3, 4, 5, 6}));
}

TEST(ParameterLayer, LearnsATarget) {
  TestNet net(
      "layer { name: 'in' type: 'Input' top: 't' input_param { shape { dim: 1 dim: 2 } } }"
      "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 1 dim: 2 } } }"
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'p' bottom: 't' top: 'l' }");
  SetData({3, -1}, net->FindBlob("t"));
  EXPECT_EQ(net.Pass(), 5);
  EXPECT_EQ(net.Gradient("p/0"), (std::vector<float>{-3, 1}));
  for (int i = 0; i < 2; ++i) net.weights()[i] -= net.Gradient("p/0")[i];
  EXPECT_EQ(net.Pass(), 0);
}

TEST(ParameterLayer, RefusesBadSettings) {
  EXPECT_CONTAINS(SetUpError("type: 'Parameter'", {}), "missing");
  EXPECT_CONTAINS(SetUpError("type: 'Parameter' parameter_param { shape { dim: 0 } }", {}),
                  "0 given, expected a positive number");
}

}  // namespace
}  // namespace millrace::test
