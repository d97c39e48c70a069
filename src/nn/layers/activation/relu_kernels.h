// Kernels (device/kernel.h) of the ReLU layer.
#ifndef MILLRACE_NN_LAYERS_ACTIVATION_RELU_KERNELS_H_
#define MILLRACE_NN_LAYERS_ACTIVATION_RELU_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

struct ReluForward {
  float slope;
  const float* bottom;
  float* top;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float x = bottom[i];
    top[i] = x > 0 ? x : slope * x;
  }
};

struct ReluBackward {
  float slope;
  const float* bottom;  // or the top: it has the same sign if the slope is not negative
  const float* top_diff;
  float* bottom_diff;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    bottom_diff[i] = bottom[i] > 0 ? top_diff[i] : slope * top_diff[i];
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ACTIVATION_RELU_KERNELS_H_
