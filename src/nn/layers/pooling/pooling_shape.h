// The windows of a pooling, for its kernels (pooling_kernels.h).
#ifndef MILLRACE_NN_LAYERS_POOLING_POOLING_SHAPE_H_
#define MILLRACE_NN_LAYERS_POOLING_POOLING_SHAPE_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

// Pairs are (height, width). Indices are int32_t or int64_t.
struct PoolingShape {
  Divisor in[2], out[2];  // sizes of a plane
  int64_t kernel[2];
  Divisor stride[2];
  int64_t pad[2];

  // The values of `planes` planes of the bottom or of the top, of which are more.
  int64_t Extent(int64_t planes) const {
    const int64_t bottom = in[0] * in[1], top = out[0] * out[1];
    return planes * (bottom > top ? bottom : top);
  }
  // The plane, row and column of value i of planes of this size.
  template <typename Index>
  struct Place {
    Index plane, y, x;

    MILLRACE_HOST_DEVICE Place(Index i, const Divisor (&size)[2]) {
      const Index row = i / size[1];
      plane = row / size[0];
      y = row - plane * size[0];
      x = i - row * size[1];
    }
  };

  // The part of window `index` along an axis that lies inside the bottom.
  template <typename Index>
  MILLRACE_HOST_DEVICE Index Begin(int axis, Index index) const {
    const Index begin = First(axis, index);
    return begin > 0 ? begin : 0;
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE Index End(int axis, Index index) const {
    const Index end = First(axis, index) + static_cast<Index>(kernel[axis]);
    const auto size = static_cast<Index>(in[axis]);
    return end < size ? end : size;
  }
  // Whether the window of row y and column x of the top contains no value of the bottom.
  template <typename Index>
  MILLRACE_HOST_DEVICE bool IsEmpty(Index y, Index x) const {
    return Begin(0, y) >= End(0, y) || Begin(1, x) >= End(1, x);
  }
  // The size of the window clipped to the padded bottom: an average's divisor.
  template <typename Index>
  MILLRACE_HOST_DEVICE Index PaddedSize(int axis, Index index) const {
    const Index begin = First(axis, index), end = begin + static_cast<Index>(kernel[axis]);
    const auto padded = static_cast<Index>(in[axis] + pad[axis]);
    return (end < padded ? end : padded) - begin;
  }
  // The windows [FirstOver, EndOver) that contain a position of the bottom.
  template <typename Index>
  MILLRACE_HOST_DEVICE Index FirstOver(int axis, Index position) const {
    const Index beyond = position + static_cast<Index>(pad[axis] - kernel[axis]);
    return beyond < 0 ? 0 : beyond / stride[axis] + 1;
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE Index EndOver(int axis, Index position) const {
    const Index end = (position + static_cast<Index>(pad[axis])) / stride[axis] + 1;
    const auto size = static_cast<Index>(out[axis]);
    return end < size ? end : size;
  }

 private:
  template <typename Index>
  MILLRACE_HOST_DEVICE Index First(int axis, Index index) const {
    return index * stride[axis] - static_cast<Index>(pad[axis]);
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_POOLING_POOLING_SHAPE_H_
