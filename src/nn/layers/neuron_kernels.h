// Kernels (device/kernel.h) that apply a formula (neuron_formulas.h) to every value.
#ifndef MILLRACE_NN_LAYERS_NEURON_KERNELS_H_
#define MILLRACE_NN_LAYERS_NEURON_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

template <typename Formula>
struct NeuronForward {
  Formula formula;
  const float* bottom;
  float* top;  // may be `bottom`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { top[i] = formula.Value(bottom[i]); }
};

template <typename Formula>
struct NeuronBackward {
  Formula formula;
  const float* bottom;  // or the top, if the slope needs no bottom
  const float* top;
  const float* top_diff;
  float* bottom_diff;  // may be `top_diff`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top), visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    bottom_diff[i] = top_diff[i] * formula.Slope(bottom[i], top[i]);
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_NEURON_KERNELS_H_
