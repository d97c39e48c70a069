// Kernels of recurrent layers.
#ifndef MILLRACE_NN_LAYERS_RECURRENT_RECURRENT_KERNELS_H_
#define MILLRACE_NN_LAYERS_RECURRENT_RECURRENT_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

// Kernels (device/kernel.h) of recurrent layers. An element is a value of {N, D}: N streams of D
// values.

// out = cont * hidden: a stream whose cont is 0 begins anew.
struct ContinueState {
  Divisor width;      // D
  const float* cont;  // {N}
  const float* hidden;
  float* out;

  static int64_t Extent(int64_t count) { return count; }
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
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    float diff = y_diff[i];
    if (next_cont != nullptr) diff += next_cont[i / width] * next_diff[i];
    out[i] = diff * (1 - y[i] * y[i]);
  }
};

// Kernels (device/kernel.h) of one step of an LSTM over N streams of D cells. The formulas are in
// lstm_layers.cc. Arrays {N, 4D} hold the gates i, f, o, g of a stream one after the other. An
// element is a cell of a stream.
struct LstmForward {
  Divisor cells;          // D
  const float* inputs;    // {N, 4D}: sums of the gates
  const float* previous;  // {N, D}: c of the step before
  const float* cont;      // {N}
  float* gates;           // {N, 4D}: i, f, o, g; may be `inputs`
  float* cell;            // {N, D}: c
  float* hidden;          // {N, D}: h

  static int64_t Extent(int64_t count) { return 4 * count; }
  static MILLRACE_HOST_DEVICE float Sigmoid(float x) { return 1 / (1 + expf(-x)); }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index at) const {
    const Index stream = at / cells, first = at + stream * 3 * cells;
    const auto gate = static_cast<Index>(cells);
    const float i = Sigmoid(inputs[first]), f = Sigmoid(inputs[first + gate]);
    const float o = Sigmoid(inputs[first + 2 * gate]), g = tanhf(inputs[first + 3 * gate]);
    const float c = cont[stream] * f * previous[at] + i * g;
    gates[first] = i;
    gates[first + gate] = f;
    gates[first + 2 * gate] = o;
    gates[first + 3 * gate] = g;
    cell[at] = c;
    hidden[at] = o * tanhf(c);
  }
};

struct LstmBackward {
  Divisor cells;
  const float* gates;  // of LstmForward
  const float* previous;
  const float* cont;
  const float* cell;
  const float* cell_diff;         // dE/dc; null: 0
  const float* hidden_diff;       // dE/dh, without what the next step adds:
  const float* next_cont;         // cont of the next step; null: there is none
  const float* next_hidden_diff;  // {N, D}: dE/d(cont h), of the next step
  float* input_diff;              // {N, 4D}; null: not wanted
  float* previous_diff;           // {N, D}; may be `cell_diff`; null: not wanted

  static int64_t Extent(int64_t count) { return 4 * count; }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index at) const {
    const Index stream = at / cells, first = at + stream * 3 * cells;
    const auto gate = static_cast<Index>(cells);
    const float i = gates[first], f = gates[first + gate];
    const float o = gates[first + 2 * gate], g = gates[first + 3 * gate];
    const float tanh_c = tanhf(cell[at]);
    float h_diff = hidden_diff[at];
    if (next_cont != nullptr) h_diff += next_cont[stream] * next_hidden_diff[at];
    float c_diff = h_diff * o * (1 - tanh_c * tanh_c);
    if (cell_diff != nullptr) c_diff += cell_diff[at];
    if (input_diff != nullptr) {
      input_diff[first] = c_diff * g * i * (1 - i);
      input_diff[first + gate] = c_diff * cont[stream] * previous[at] * f * (1 - f);
      input_diff[first + 2 * gate] = h_diff * tanh_c * o * (1 - o);
      input_diff[first + 3 * gate] = c_diff * i * (1 - g * g);
    }
    if (previous_diff != nullptr) previous_diff[at] = c_diff * cont[stream] * f;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_RECURRENT_RECURRENT_KERNELS_H_
