// Kernels (device/kernel.h) of recurrent layers. An element is a value of {N, D}: N streams of D
// values.
#ifndef MILLRACE_NN_LAYERS_RECURRENT_KERNELS_H_
#define MILLRACE_NN_LAYERS_RECURRENT_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

// out = cont * hidden: a stream whose cont is 0 begins anew.
struct ContinueState {
  Divisor width;      // D
  const float* cont;  // {N}
  const float* hidden;
  float* out;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Visit>
  void Pointers(Visit visit) {
    visit(cont), visit(hidden), visit(out);
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    out[i] = cont[i / width] * hidden[i];
  }
};

// out = tanh(in).
struct TanhForward {
  const float* in;
  float* out;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(in), visit(out);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { out[i] = tanhf(in[i]); }
};

// The gradient by the argument of y = tanh(...), given dE/dy without what the next step adds.
struct TanhStepBackward {
  Divisor width;  // D
  const float* y;
  const float* y_diff;
  const float* next_cont;  // {N}: cont of the next step; null: there is none
  const float* next_diff;  // {N, D}: dE/d(cont y), of the next step
  float* out;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Visit>
  void Pointers(Visit visit) {
    visit(y), visit(y_diff), visit(next_cont), visit(next_diff), visit(out);
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    float diff = y_diff[i];
    if (next_cont != nullptr) diff += next_cont[i / width] * next_diff[i];
    out[i] = diff * (1 - y[i] * y[i]);
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_RECURRENT_KERNELS_H_
