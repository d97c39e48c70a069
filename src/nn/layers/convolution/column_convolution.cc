#include "nn/layers/convolution/column_convolution.h"

#include <utility>

#include "base/error.h"
#include "device/kernel.h"

namespace millrace::inline nn {

ColumnShape ColumnsOf(const ConvolutionGeometry& g, const Shape& bottom, const Shape& top) {
  if (g.axes() > ColumnShape::kMaxAxes) {
    throw FieldError("bottom", "has ", g.spatial, " spatial axes, expected at most ",
                     ColumnShape::kMaxAxes);
  }
  ColumnShape shape{g.axes(), 1, 1, 1, {}, {}, {}, {}, {}, {}};
  for (int axis = 0; axis < g.axes(); ++axis) {
    shape.in[axis] = bottom[2 + axis];
    shape.out[axis] = top[2 + axis];
    shape.kernel[axis] = g.kernel[axis];
    shape.stride[axis] = g.stride[axis];
    shape.pad[axis] = g.pad[axis];
    shape.dilation[axis] = g.dilation[axis];
    shape.taps = shape.taps * g.kernel[axis];
    shape.windows = shape.windows * top[2 + axis];
    shape.plane = shape.plane * bottom[2 + axis];
  }
  return shape;
}

namespace {

// Computes image by image, so that the columns of one image suffice as workspace.
class ColumnConvolution final : public ConvolutionPlan {
 public:
  ColumnConvolution(const ConvolutionGeometry& g, const Shape& bottom, const Shape& top,
                    Queue& queue, MatrixProduct product)
      : columns_(ColumnsOf(g, bottom, top)),
        images_(bottom[0]),
        group_(g.group),
        channels_(g.channels),
        outputs_(g.num_output / g.group),
        rows_(g.channels / g.group * columns_.taps),
        queue_(queue),
        product_(std::move(product)) {}

  size_t workspace_bytes() const override {
    return channels_ * columns_.taps * columns_.windows * sizeof(float);
  }

  void Forward(const float* bottom, const float* weights, float* top, void* workspace) override {
    for (int64_t n = 0; n < images_; ++n, bottom += image(), top += top_image()) {
      float* const columns = Unfold(bottom, workspace);
      for (int64_t g = 0; g < group_; ++g) {
        product_(false, false, outputs_, columns_.windows, rows_, weights + g * outputs_ * rows_,
                 columns + g * rows_ * columns_.windows, false,
                 top + g * outputs_ * columns_.windows);
      }
    }
  }

  void BackwardData(const float* top_diff, const float* weights, float* bottom_diff,
                    void* workspace) override {
    auto* const columns = static_cast<float*>(workspace);
    for (int64_t n = 0; n < images_; ++n, bottom_diff += image(), top_diff += top_image()) {
      for (int64_t g = 0; g < group_; ++g) {
        product_(true, false, rows_, columns_.windows, outputs_, weights + g * outputs_ * rows_,
                 top_diff + g * outputs_ * columns_.windows, false,
                 columns + g * rows_ * columns_.windows);
      }
      Launch(queue_, image(), ColumnsToImage{columns_, columns, bottom_diff});
    }
  }

  void BackwardWeights(const float* bottom, const float* top_diff, bool add, float* weight_diff,
                       void* workspace) override {
    for (int64_t n = 0; n < images_; ++n, bottom += image(), top_diff += top_image()) {
      const float* const columns = Unfold(bottom, workspace);
      for (int64_t g = 0; g < group_; ++g) {
        product_(false, true, outputs_, rows_, columns_.windows,
                 top_diff + g * outputs_ * columns_.windows, columns + g * rows_ * columns_.windows,
                 add || n > 0, weight_diff + g * outputs_ * rows_);
      }
    }
  }

 private:
  int64_t image() const { return channels_ * columns_.plane; }
  int64_t top_image() const { return group_ * outputs_ * columns_.windows; }

  float* Unfold(const float* image, void* workspace) {
    auto* const columns = static_cast<float*>(workspace);
    Launch(queue_, channels_ * columns_.taps * columns_.windows,
           ImageToColumns{columns_, image, columns});
    return columns;
  }

  const ColumnShape columns_;
  const int64_t images_, group_, channels_;
  const int64_t outputs_, rows_;  // of a group: outputs, and values under a window
  Queue& queue_;
  const MatrixProduct product_;
};

}  // namespace

std::unique_ptr<ConvolutionPlan> PlanColumnConvolution(const ConvolutionGeometry& geometry,
                                                       const Shape& bottom, Queue& queue,
                                                       MatrixProduct product) {
  Shape top = bottom;
  top[1] = geometry.num_output;
  for (int axis = 0; axis < geometry.axes(); ++axis) {
    const int64_t room = bottom[2 + axis] + 2 * geometry.pad[axis] - geometry.Extent(axis);
    top[2 + axis] = room / geometry.stride[axis] + 1;
  }
  return std::make_unique<ColumnConvolution>(geometry, bottom, top, queue, std::move(product));
}

}  // namespace millrace::inline nn
