// Kernels (device/kernel.h) that unfold the windows of a convolution to columns, and fold columns
// back, for any number of spatial axes.
//
// Images are {images, channels, in sizes}, columns {images, channels, kernel sizes, out sizes}: the
// values under window w at tap t of the kernel. Plain order.
#ifndef MILLRACE_NN_LAYERS_COLUMN_KERNELS_H_
#define MILLRACE_NN_LAYERS_COLUMN_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

struct ColumnShape {
  static constexpr int kMostAxes = 6;

  int axes;         // spatial ones
  int64_t taps;     // of a window on one channel
  int64_t windows;  // of an image
  int64_t plane;    // values of a channel of an image
  int64_t in[kMostAxes], out[kMostAxes];
  int64_t kernel[kMostAxes], stride[kMostAxes], pad[kMostAxes], dilation[kMostAxes];
};

// An element is a value of the columns.
struct ImageToColumns {
  ColumnShape shape;
  const float* image;
  float* columns;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(image), visit(columns);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    int64_t window = i % shape.windows, tap = i / shape.windows % shape.taps;
    const int64_t channel = i / (shape.windows * shape.taps);
    int64_t at = 0, step = 1;
    bool inside = true;
    for (int axis = shape.axes - 1; axis >= 0; --axis) {
      const int64_t place = window % shape.out[axis] * shape.stride[axis] - shape.pad[axis] +
                            tap % shape.kernel[axis] * shape.dilation[axis];
      window /= shape.out[axis];
      tap /= shape.kernel[axis];
      inside = inside && place >= 0 && place < shape.in[axis];
      at += place * step;
      step *= shape.in[axis];
    }
    columns[i] = inside ? image[channel * shape.plane + at] : 0.0f;
  }
};

// An element is a value of the image: the sum of its values in the columns.
struct ColumnsToImage {
  ColumnShape shape;
  const float* columns;
  float* image;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(columns), visit(image);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t channel = i / shape.plane;
    float sum = 0;
    for (int64_t tap = 0; tap < shape.taps; ++tap) {
      int64_t place = i % shape.plane, rest = tap, window = 0, step = 1;
      bool covered = true;
      for (int axis = shape.axes - 1; axis >= 0; --axis) {
        const int64_t shifted = place % shape.in[axis] + shape.pad[axis] -
                                rest % shape.kernel[axis] * shape.dilation[axis];
        const int64_t number = shifted / shape.stride[axis];
        covered = covered && shifted >= 0 && shifted % shape.stride[axis] == 0 &&
                  number < shape.out[axis];
        window += number * step;
        step *= shape.out[axis];
        place /= shape.in[axis];
        rest /= shape.kernel[axis];
      }
      if (covered) sum += columns[(channel * shape.taps + tap) * shape.windows + window];
    }
    image[i] = sum;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_COLUMN_KERNELS_H_
