// Helpers of the tests of loss layers.
#ifndef MILLRACE_TEST_NN_LOSS_SUPPORT_H_
#define MILLRACE_TEST_NN_LOSS_SUPPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "test/nn/layer_runner.h"

namespace millrace::test {

struct Bottom {
  Shape shape;
  Array values;
};

// A set-up layer with these bottoms.
inline std::unique_ptr<LayerRunner> RunnerOf(const std::string& prototxt,
                                             const std::vector<Bottom>& bottoms, int tops = 1) {
  auto runner = std::make_unique<LayerRunner>(prototxt);
  for (const Bottom& bottom : bottoms) runner->AddBottom(bottom.shape, bottom.values);
  runner->SetUp(tops);
  return runner;
}

// The error of setting up a layer with bottoms of these shapes, filled with zeros.
inline std::string SetUpError(const std::string& prototxt, const std::vector<Shape>& shapes) {
  std::vector<Bottom> bottoms;
  for (const Shape& shape : shapes) bottoms.push_back({shape, Array(ShapeCount(shape), 0.0)});
  return ErrorOf([&] { RunnerOf(prototxt, bottoms); });
}

// Gives bottoms other shapes and values, and calls Reshape.
inline void Resize(LayerRunner* runner, const std::vector<Bottom>& bottoms) {
  for (size_t i = bottoms.size(); i-- > 1;) {
    Blob& blob = runner->bottom(static_cast<int>(i));
    blob.Reshape(bottoms[i].shape);
    SetData(bottoms[i].values, &blob);
  }
  runner->Reshape(bottoms[0].shape, bottoms[0].values);
}

// The error of a pass with labels that are not classes.
inline std::string LabelError(LayerRunner* runner) {
  runner->Forward();
  return ErrorOf([&] { runner->layer().CheckForward(runner->bottoms()); });
}

// Whole numbers below `classes`.
inline Array RandomClasses(int64_t count, int classes, Rng* rng) {
  Array labels(count);
  for (double& label : labels) label = static_cast<double>(rng->Below(classes));
  return labels;
}

inline Array Scaled(Array values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

// Expects the properties of a loss whose bottom 1 are labels.
inline void ExpectLossOfBottomZero(const Layer& layer) {
  EXPECT_EQ(layer.DefaultLossWeight(0), 1);
  EXPECT_EQ(layer.DefaultLossWeight(1), 0);
  EXPECT_TRUE(layer.AllowBackward(0));
  EXPECT_FALSE(layer.AllowBackward(1));
  EXPECT_TRUE(layer.AutoTop());
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NN_LOSS_SUPPORT_H_
