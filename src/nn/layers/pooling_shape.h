// The windows of a pooling, for its kernels (pooling_kernels.h).
#ifndef MILLRACE_NN_LAYERS_POOLING_SHAPE_H_
#define MILLRACE_NN_LAYERS_POOLING_SHAPE_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// Pairs are (height, width).
struct PoolingShape {
  int64_t in[2], out[2];  // sizes of a plane
  int64_t kernel[2], stride[2], pad[2];

  // The part of window `index` along an axis that lies inside the bottom.
  MILLRACE_HOST_DEVICE int64_t Begin(int axis, int64_t index) const {
    const int64_t begin = index * stride[axis] - pad[axis];
    return begin > 0 ? begin : 0;
  }
  MILLRACE_HOST_DEVICE int64_t End(int axis, int64_t index) const {
    const int64_t end = index * stride[axis] - pad[axis] + kernel[axis];
    return end < in[axis] ? end : in[axis];
  }
  // Whether the window of row y and column x of the top contains no value of the bottom.
  MILLRACE_HOST_DEVICE bool IsEmpty(int64_t y, int64_t x) const {
    return Begin(0, y) >= End(0, y) || Begin(1, x) >= End(1, x);
  }
  // The size of the window clipped to the padded bottom: an average's divisor.
  MILLRACE_HOST_DEVICE int64_t PaddedSize(int axis, int64_t index) const {
    const int64_t begin = index * stride[axis] - pad[axis];
    const int64_t end = begin + kernel[axis];
    return (end < in[axis] + pad[axis] ? end : in[axis] + pad[axis]) - begin;
  }
  // The windows [FirstOver, EndOver) that contain a position of the bottom.
  MILLRACE_HOST_DEVICE int64_t FirstOver(int axis, int64_t position) const {
    const int64_t shifted = position + pad[axis];
    return shifted < kernel[axis] ? 0 : (shifted - kernel[axis]) / stride[axis] + 1;
  }
  MILLRACE_HOST_DEVICE int64_t EndOver(int axis, int64_t position) const {
    const int64_t end = (position + pad[axis]) / stride[axis] + 1;
    return end < out[axis] ? end : out[axis];
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_POOLING_SHAPE_H_
