// Kernels (device/kernel.h) of stochastic pooling, in plain order and without padding. The gradient
// of a drawn value is that of a maximum (MaxPoolBackward).
#ifndef MILLRACE_NN_LAYERS_POOLING_STOCHASTIC_POOLING_KERNELS_H_
#define MILLRACE_NN_LAYERS_POOLING_STOCHASTIC_POOLING_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "base/philox.h"
#include "nn/layers/pooling/pooling_shape.h"

namespace millrace::inline nn {

// The sums over a window of a plane of the bottom.
struct WindowSums {
  float values = 0, squares = 0;

  template <typename Index>
  MILLRACE_HOST_DEVICE WindowSums(const PoolingShape& shape, const float* plane, Index y, Index x) {
    for (Index row = shape.Begin(0, y); row < shape.End(0, y); ++row) {
      for (Index column = shape.Begin(1, x); column < shape.End(1, x); ++column) {
        const float value = plane[row * shape.in[1] + column];
        values += value;
        squares += value * value;
      }
    }
  }
};

// An element is a value of the top: a value of its window, drawn with the probability value / sum.
struct StochasticPoolDraw {
  PoolingShape shape;
  const uint64_t* key;  // of the random numbers
  const float* bottom;
  float* top;
  int32_t* chosen;  // for each value of the top: index in its plane of the bottom, or -1

  int64_t Extent(int64_t count) const {
    return shape.Extent(count / (shape.out[0] * shape.out[1]));
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const auto [number, y, x] = PoolingShape::Place<Index>(i, shape.out);
    if (shape.IsEmpty(y, x)) {
      top[i] = 0;
      chosen[i] = -1;
      return;
    }
    const float* plane = bottom + number * shape.in[0] * shape.in[1];
    uint32_t words[4];
    PhiloxBlock(*key, static_cast<uint64_t>(i), 0, words);
    // In (0, 1], as 24 bits.
    const float uniform = static_cast<float>((words[0] >> 8) + 1) * 0x1p-24f;
    const float threshold = uniform * WindowSums(shape, plane, y, x).values;
    float sum = 0;
    Index drawn = -1, last = 0;
    for (Index row = shape.Begin(0, y); row < shape.End(0, y); ++row) {
      for (Index column = shape.Begin(1, x); column < shape.End(1, x); ++column) {
        last = row * shape.in[1] + column;
        sum += plane[last];
        if (drawn < 0 && sum >= threshold) drawn = last;
      }
    }
    if (drawn < 0) drawn = last;  // of values that are not finite
    top[i] = plane[drawn];
    chosen[i] = static_cast<int32_t>(drawn);
  }
};

// An element is a value of the top: the mean of its window, weighted with the values.
struct StochasticPoolMean {
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
    const WindowSums sums(shape, plane, y, x);
    top[i] = sums.values > 0 ? sums.squares / sums.values : 0.0f;
  }
};

// The gradient of StochasticPoolMean. An element is a value of the bottom.
struct StochasticPoolMeanGradient {
  PoolingShape shape;
  const float* bottom;
  const float* top;
  const float* top_diff;
  float* bottom_diff;

  int64_t Extent(int64_t count) const { return shape.Extent(count / (shape.in[0] * shape.in[1])); }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const auto [plane, y, x] = PoolingShape::Place<Index>(i, shape.in);
    const float* values = bottom + plane * shape.in[0] * shape.in[1];
    float sum = 0;
    for (Index row = shape.FirstOver(0, y); row < shape.EndOver(0, y); ++row) {
      for (Index column = shape.FirstOver(1, x); column < shape.EndOver(1, x); ++column) {
        const Index at = (plane * shape.out[0] + row) * shape.out[1] + column;
        const float of_window = WindowSums(shape, values, row, column).values;
        if (of_window > 0) sum += top_diff[at] * (2 * bottom[i] - top[at]) / of_window;
      }
    }
    bottom_diff[i] = sum;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_POOLING_STOCHASTIC_POOLING_KERNELS_H_
