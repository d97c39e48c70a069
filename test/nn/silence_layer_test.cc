#include "test/nn/layer_runner.h"
#include "test/nn/net_support.h"

namespace millrace::test {
namespace {

TEST(SilenceLayer, HasNoGradient) {
  LayerRunner runner("type: 'Silence'");
  runner.AddBottom({2}, {1, 2});
  runner.AddBottom({1, 2}, {3, 4});
  runner.SetUp(0);
  runner.Forward();
  SetDiff({9, 9}, &runner.bottom(0));
  SetDiff({9, 9}, &runner.bottom(1));
  runner.layer().Backward({}, {true, false}, runner.bottoms());
  EXPECT_EQ(GetDiff(runner.bottom(0)), (Array{0, 0}));
  EXPECT_EQ(GetDiff(runner.bottom(1)), (Array{9, 9}));
}

TEST(SilenceLayer, TakesABlobFromTheOutputsOfANet) {
  TestNet net(
      "layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param {"
      "  shape { dim: 2 } shape { dim: 3 } } }"
      "layer { name: 'quiet' type: 'Silence' bottom: 'x' }");
  ASSERT_EQ(net->outputs().size(), 1u);
  EXPECT_EQ(net->outputs()[0].name, "y");
  EXPECT_EQ(net.Pass(), 0);
}

}  // namespace
}  // namespace millrace::test
