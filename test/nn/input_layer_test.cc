#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

std::string Complaint(const std::string& input_param, int tops) {
  LayerRunner runner("type: 'Input' input_param { " + input_param + " }");
  return ErrorOf([&] { runner.SetUp(tops); });
}

TEST(InputLayer, ShapesItsTops) {
  LayerRunner runner("type: 'Input' input_param { shape { dim: 2 dim: 3 } shape { } }");
  runner.SetUp(2);
  EXPECT_EQ(runner.top(0).shape(), (Shape{2, 3}));
  EXPECT_EQ(runner.top(1).shape(), Shape{});
}

TEST(InputLayer, GivesOneShapeToAllTops) {
  LayerRunner runner("type: 'Input' input_param { shape { dim: 4 dim: 1 dim: 5 } }");
  runner.SetUp(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(runner.top(i).shape(), (Shape{4, 1, 5}));
}

TEST(InputLayer, WithoutAShapeLeavesThatToWhoeverFeedsTheNet) {
  LayerRunner runner("type: 'Input'");
  runner.SetUp(2);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(runner.top(i).shape(), Shape{});
}

TEST(InputLayer, LeavesValuesAndShapesToWhoeverFeedsTheNet) {
  LayerRunner runner("type: 'Input' input_param { shape { dim: 2 } }");
  runner.SetUp();
  runner.top().Reshape({3});
  SetData({1, 2, 3}, &runner.top());
  runner.layer().Reshape(runner.bottoms(), runner.tops());
  runner.Forward();
  EXPECT_EQ(runner.top().shape(), Shape{3});
  EXPECT_EQ(GetData(runner.top()), (Array{1, 2, 3}));
}

TEST(InputLayer, RefusesShapesThatMakeNoBlob) {
  EXPECT_CONTAINS(Complaint("shape { dim: 1 } shape { dim: 2 }", 1), "2 given, expected 1");
  EXPECT_CONTAINS(Complaint("shape { dim: 1 } shape { dim: 2 }", 3),
                  "expected 1 or 3 (one per top)");
  EXPECT_CONTAINS(Complaint("shape { dim: 2 dim: -1 }", 1), "expected a positive number or 0");
  EXPECT_CONTAINS(Complaint("shape { dim: -4 }", 1), "-4 given");
  EXPECT_CONTAINS(Complaint("shape { dim: 1000000 dim: 1000000 }", 1), "more than 2147483647");
  EXPECT_CONTAINS(Complaint("shape { dim: 9000000000000000000 dim: 9000000000000000000 }", 1),
                  "more than 2147483647");
}

TEST(InputLayer, NamesTheDimensionThatIsWrong) {
  LayerRunner runner("type: 'Input' input_param { shape { dim: 1 } shape { dim: 2 dim: -1 } }");
  try {
    runner.SetUp(2);
    FAIL() << "no error";
  } catch (const FieldError& error) {
    EXPECT_EQ(error.field(), "input_param.shape[1].dim[1]");
  }
}

}  // namespace
}  // namespace millrace::test
