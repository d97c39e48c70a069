// Kernels (device/kernel.h) that unfold the windows of a convolution to columns, and fold columns
// back, for any number of spatial axes.
//
// Images are {images, channels, in sizes}, columns {images, channels, kernel sizes, out sizes}: the
// values under window w at tap t of the kernel. Plain order.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_COLUMN_KERNELS_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_COLUMN_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

struct ColumnShape {
  static constexpr int kMaxAxes = 6;

  // The largest array for `count` values of the columns or of the image. Positions that padding
  // makes lie before and behind a plane.
  int64_t Extent(int64_t count, int64_t channel) const {
    int64_t padded = 1;
    for (int axis = 0; axis < axes; ++axis) padded *= in[axis] + 2 * pad[axis];
    const int64_t columns = taps * windows;
    return (count / channel + 1) * (columns > padded ? columns : padded);
  }

  int axes;         // spatial ones
  Divisor taps;     // of a window on one channel
  Divisor windows;  // of an image
  Divisor plane;    // values of a channel of an image
  Divisor in[kMaxAxes], out[kMaxAxes];
  Divisor kernel[kMaxAxes], stride[kMaxAxes];
  int64_t pad[kMaxAxes], dilation[kMaxAxes];
};

// An element is a value of the columns.
struct ImageToColumns {
  ColumnShape shape;
  const float* image;
  float* columns;

  int64_t Extent(int64_t count) const { return shape.Extent(count, shape.taps * shape.windows); }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const Index row = i / shape.windows, channel = row / shape.taps;
    Index window = i - row * shape.windows, tap = row - channel * shape.taps;
    Index at = 0, step = 1;
    bool inside = true;
    for (int axis = shape.axes - 1; axis >= 0; --axis) {
      const Index place = window % shape.out[axis] * shape.stride[axis] -
                          static_cast<Index>(shape.pad[axis]) +
                          tap % shape.kernel[axis] * static_cast<Index>(shape.dilation[axis]);
      window = window / shape.out[axis];
      tap = tap / shape.kernel[axis];
      inside = inside && place >= 0 && place < static_cast<Index>(shape.in[axis]);
      at += place * step;
      step = step * shape.in[axis];
    }
    columns[i] = inside ? image[channel * shape.plane + at] : 0.0f;
  }
};

// An element is a value of the image: the sum of its values in the columns.
struct ColumnsToImage {
  ColumnShape shape;
  const float* columns;
  float* image;

  int64_t Extent(int64_t count) const { return shape.Extent(count, shape.plane); }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const Index channel = i / shape.plane, taps = static_cast<Index>(shape.taps);
    float sum = 0;
    for (Index tap = 0; tap < taps; ++tap) {
      Index place = i - channel * shape.plane, rest = tap, window = 0, step = 1;
      bool covered = true;
      for (int axis = shape.axes - 1; axis >= 0; --axis) {
        const Index shifted = place % shape.in[axis] + static_cast<Index>(shape.pad[axis]) -
                              rest % shape.kernel[axis] * static_cast<Index>(shape.dilation[axis]);
        covered = covered && shifted >= 0;
        const Index number = (shifted < 0 ? 0 : shifted) / shape.stride[axis];
        covered = covered && number * shape.stride[axis] == shifted &&
                  number < static_cast<Index>(shape.out[axis]);
        window += number * step;
        step = step * shape.out[axis];
        place = place / shape.in[axis];
        rest = rest / shape.kernel[axis];
      }
      if (covered) sum += columns[(channel * shape.taps + tap) * shape.windows + window];
    }
    image[i] = sum;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_COLUMN_KERNELS_H_
