// Kernels (device/kernel.h) of the Eltwise layer. An element is a value of the top.
#ifndef MILLRACE_NN_LAYERS_ELEMENTWISE_ELTWISE_KERNELS_H_
#define MILLRACE_NN_LAYERS_ELEMENTWISE_ELTWISE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// sum = first_factor * first + second_factor * second. `sum` may be one of them.
struct EltwiseSum {
  float first_factor, second_factor;
  const float* first;
  const float* second;
  float* sum;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(first), visit(second), visit(sum);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    sum[i] = first_factor * first[i] + second_factor * second[i];
  }
};

// out = factor * in
struct EltwiseScale {
  float factor;
  const float* in;
  float* out;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(in), visit(out);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { out[i] = factor * in[i]; }
};

// product = first * second. `product` may be one of them.
struct EltwiseProduct {
  const float* first;
  const float* second;
  float* product;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(first), visit(second), visit(product);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { product[i] = first[i] * second[i]; }
};

// The gradient of a product by a quotient: bottom_diff = top_diff * (top / bottom)
struct EltwiseQuotientGradient {
  const float* top;
  const float* bottom;
  const float* top_diff;
  float* bottom_diff;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(top), visit(bottom), visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    bottom_diff[i] = top[i] / bottom[i] * top_diff[i];
  }
};

// The larger of two bottoms, and its number; bottom 1 if they are equal.
struct EltwiseMaxOfTwo {
  const float* first;
  const float* second;
  float* top;
  int32_t* chosen;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(first), visit(second), visit(top), visit(chosen);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float a = first[i], b = second[i];
    const bool larger = a > b;
    top[i] = larger ? a : b;
    chosen[i] = larger ? 0 : 1;
  }
};

// Replaces the top where bottom `number` is larger.
struct EltwiseMaxOfNext {
  int32_t number;
  const float* bottom;
  float* top;
  int32_t* chosen;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top), visit(chosen);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float value = bottom[i], old = top[i];
    const bool larger = value > old;
    top[i] = larger ? value : old;
    chosen[i] = larger ? number : chosen[i];
  }
};

// bottom_diff = top_diff where bottom `number` was chosen, 0 elsewhere
struct EltwiseMaxGradient {
  int32_t number;
  const int32_t* chosen;
  const float* top_diff;
  float* bottom_diff;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(chosen), visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    bottom_diff[i] = chosen[i] == number ? top_diff[i] : 0.0f;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ELEMENTWISE_ELTWISE_KERNELS_H_
