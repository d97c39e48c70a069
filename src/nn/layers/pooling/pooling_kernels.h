// Kernels (device/kernel.h) of the Pooling layer, for plain order. Every element is computed from
// all that it depends on, so no two elements write the same value.
#ifndef MILLRACE_NN_LAYERS_POOLING_POOLING_KERNELS_H_
#define MILLRACE_NN_LAYERS_POOLING_POOLING_KERNELS_H_

#include <cfloat>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/pooling/pooling_shape.h"

namespace millrace::inline nn {

// An element is a value of the top.
struct MaxPoolForward {
  PoolingShape shape;
  const float* bottom;
  float* top;
  int32_t* chosen;  // for each value of the top: index in its plane of the bottom, or -1
  float* mask;      // the same; may be null

  int64_t Extent(int64_t count) const {
    return shape.Extent(count / (shape.out[0] * shape.out[1]));
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const auto [number, y, x] = PoolingShape::Place<Index>(i, shape.out);
    const float* plane = bottom + number * shape.in[0] * shape.in[1];
    if (shape.IsEmpty(y, x)) {
      top[i] = -FLT_MAX;
      chosen[i] = -1;
      if (mask) mask[i] = -1;
      return;
    }
    Index best = shape.Begin(0, y) * shape.in[1] + shape.Begin(1, x);
    for (Index row = shape.Begin(0, y); row < shape.End(0, y); ++row) {
      for (Index column = shape.Begin(1, x); column < shape.End(1, x); ++column) {
        const Index at = row * shape.in[1] + column;
        if (plane[at] > plane[best] || plane[at] != plane[at]) best = at;  // NaN is chosen
      }
    }
    top[i] = plane[best];
    chosen[i] = static_cast<int32_t>(best);
    if (mask) mask[i] = static_cast<float>(best);
  }
};

// An element is a value of the bottom.
struct MaxPoolBackward {
  PoolingShape shape;
  const float* top_diff;
  const int32_t* chosen;
  float* bottom_diff;

  int64_t Extent(int64_t count) const { return shape.Extent(count / (shape.in[0] * shape.in[1])); }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const auto [number, y, x] = PoolingShape::Place<Index>(i, shape.in);
    const Index plane = number * shape.out[0] * shape.out[1];
    const auto self = static_cast<int32_t>(y * shape.in[1] + x);
    float sum = 0;
    for (Index row = shape.FirstOver(0, y); row < shape.EndOver(0, y); ++row) {
      for (Index column = shape.FirstOver(1, x); column < shape.EndOver(1, x); ++column) {
        const Index at = plane + row * shape.out[1] + column;
        if (chosen[at] == self) sum += top_diff[at];
      }
    }
    bottom_diff[i] = sum;
  }
};

// An element is a value of the top.
struct AveragePoolTop {
  PoolingShape shape;
  const float* bottom;
  float* top;

  int64_t Extent(int64_t count) const {
    return shape.Extent(count / (shape.out[0] * shape.out[1]));
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const auto [number, y, x] = PoolingShape::Place<Index>(i, shape.out);
    const float* plane = bottom + number * shape.in[0] * shape.in[1];
    float sum = 0;
    for (Index row = shape.Begin(0, y); row < shape.End(0, y); ++row) {
      for (Index column = shape.Begin(1, x); column < shape.End(1, x); ++column) {
        sum += plane[row * shape.in[1] + column];
      }
    }
    const Index size = shape.PaddedSize(0, y) * shape.PaddedSize(1, x);
    top[i] = shape.IsEmpty(y, x) ? 0.0f : sum / static_cast<float>(size);
  }
};

// An element is a value of the bottom.
struct AveragePoolBottom {
  PoolingShape shape;
  const float* top_diff;
  float* bottom_diff;

  int64_t Extent(int64_t count) const { return shape.Extent(count / (shape.in[0] * shape.in[1])); }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const auto [number, y, x] = PoolingShape::Place<Index>(i, shape.in);
    const Index plane = number * shape.out[0] * shape.out[1];
    float sum = 0;
    for (Index row = shape.FirstOver(0, y); row < shape.EndOver(0, y); ++row) {
      for (Index column = shape.FirstOver(1, x); column < shape.EndOver(1, x); ++column) {
        sum += top_diff[plane + row * shape.out[1] + column] /
               static_cast<float>(shape.PaddedSize(0, row) * shape.PaddedSize(1, column));
      }
    }
    bottom_diff[i] = sum;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_POOLING_POOLING_KERNELS_H_
