// Kernels (device/kernel.h) that compute each value of a top from one value of the bottom by a
// formula, and the formulas.
//
// A formula has
//   float Value(float x) const             y
//   float Slope(float x, float y) const    dy/dx
//   bool SlopeNeedsBottom() const          whether Slope reads x. If not, a layer that works in
//                                          place computes it from the top alone.
#ifndef MILLRACE_NN_LAYERS_ACTIVATION_NEURON_KERNELS_H_
#define MILLRACE_NN_LAYERS_ACTIVATION_NEURON_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "device/kernel_math.h"

namespace millrace::inline nn {

// y = 1 / (1 + e^-x)
struct SigmoidFormula {
  MILLRACE_HOST_DEVICE float Value(float x) const { return 1 / (1 + kernel_math::Exp(-x)); }
  MILLRACE_HOST_DEVICE float Slope(float, float y) const { return y * (1 - y); }
  bool SlopeNeedsBottom() const { return false; }
};

struct TanhFormula {
  MILLRACE_HOST_DEVICE float Value(float x) const { return kernel_math::Tanh(x); }
  MILLRACE_HOST_DEVICE float Slope(float, float y) const { return 1 - y * y; }
  bool SlopeNeedsBottom() const { return false; }
};

// y = x for x > 0, alpha (e^x - 1) otherwise (Clevert, Unterthiner, Hochreiter, ICLR 2016)
struct EluFormula {
  float alpha;

  MILLRACE_HOST_DEVICE float Value(float x) const {
    return kernel_math::Select(x > 0, x, 0) +
           alpha * (kernel_math::Exp(kernel_math::Select(x > 0, 0, x)) - 1);
  }
  MILLRACE_HOST_DEVICE float Slope(float x, float y) const {
    return kernel_math::Select(x > 0, 1, alpha + y);
  }
  // The top has the sign of the bottom unless alpha is negative; then Slope takes it for x.
  bool SlopeNeedsBottom() const { return alpha < 0; }
};

// y = x / (1 + e^(-beta x)) (Ramachandran, Zoph, Le, 2017)
struct SwishFormula {
  float beta;

  MILLRACE_HOST_DEVICE float Value(float x) const { return x / (1 + kernel_math::Exp(-beta * x)); }
  MILLRACE_HOST_DEVICE float Slope(float x, float) const {
    const float sigmoid = 1 / (1 + kernel_math::Exp(-beta * x));
    return sigmoid * (1 + beta * x * (1 - sigmoid));
  }
  bool SlopeNeedsBottom() const { return true; }
};

// y = min(max(x, low), high). The slope is 1 on the bounds, as in Caffe.
struct ClipFormula {
  float low, high;

  MILLRACE_HOST_DEVICE float Value(float x) const {
    return kernel_math::Select(x < low, low, kernel_math::Select(x > high, high, x));
  }
  MILLRACE_HOST_DEVICE float Slope(float x, float) const {
    return kernel_math::Select((x < low) | (x > high), 0, 1);
  }
  bool SlopeNeedsBottom() const { return true; }
};

// y = |x|; the slope at 0 is 0.
struct AbsFormula {
  MILLRACE_HOST_DEVICE float Value(float x) const { return kernel_math::Select(x < 0, -x, x); }
  MILLRACE_HOST_DEVICE float Slope(float x, float) const {
    return kernel_math::Select(x < 0, -1, kernel_math::Select(x > 0, 1, 0));
  }
  bool SlopeNeedsBottom() const { return true; }
};

// y = scale x + shift: Power with an exponent of 1. With a scale of 0, a constant.
struct LinearFormula {
  float scale, shift;

  MILLRACE_HOST_DEVICE float Value(float x) const { return scale * x + shift; }
  MILLRACE_HOST_DEVICE float Slope(float, float) const { return scale; }
  bool SlopeNeedsBottom() const { return false; }
};

// y = constant, whatever x is, NaN included: Power with an exponent or a scale of 0.
struct ConstantFormula {
  float constant;

  MILLRACE_HOST_DEVICE float Value(float) const { return constant; }
  MILLRACE_HOST_DEVICE float Slope(float, float) const { return 0; }
  bool SlopeNeedsBottom() const { return false; }
};

// y = (scale x + shift)^2
struct SquareFormula {
  float scale, shift;

  MILLRACE_HOST_DEVICE float Value(float x) const {
    const float base = scale * x + shift;
    return base * base;
  }
  MILLRACE_HOST_DEVICE float Slope(float x, float) const { return 2 * scale * (scale * x + shift); }
  bool SlopeNeedsBottom() const { return true; }
};

// y = (scale x + shift)^power
struct PowerFormula {
  float power, scale, shift;

  MILLRACE_HOST_DEVICE float Value(float x) const { return powf(scale * x + shift, power); }
  // Right for a base of 0 as well, where y / base is not.
  MILLRACE_HOST_DEVICE float Slope(float x, float) const {
    return power * scale * powf(scale * x + shift, power - 1);
  }
  bool SlopeNeedsBottom() const { return true; }
};

// y = base^(scale x + shift) = outer e^(inner x)
struct ExpFormula {
  float inner, outer;

  MILLRACE_HOST_DEVICE float Value(float x) const { return outer * kernel_math::Exp(inner * x); }
  MILLRACE_HOST_DEVICE float Slope(float, float y) const { return inner * y; }
  bool SlopeNeedsBottom() const { return false; }
};

// y = log_base(scale x + shift) = factor log(scale x + shift)
struct LogFormula {
  float factor, scale, shift;

  MILLRACE_HOST_DEVICE float Value(float x) const {
    return factor * kernel_math::Log(scale * x + shift);
  }
  MILLRACE_HOST_DEVICE float Slope(float x, float) const {
    return factor * scale / (scale * x + shift);
  }
  bool SlopeNeedsBottom() const { return true; }
};

// y = log(1 + e^x): the binomial normal log likelihood
struct BnllFormula {
  MILLRACE_HOST_DEVICE float Value(float x) const {
    return kernel_math::Select(x > 0, x, 0) +
           kernel_math::Log1p(kernel_math::Exp(kernel_math::Select(x < 0, x, -x)));
  }
  MILLRACE_HOST_DEVICE float Slope(float x, float) const { return 1 / (1 + kernel_math::Exp(-x)); }
  bool SlopeNeedsBottom() const { return true; }
};

// y = 1 for x > threshold, 0 otherwise. Has no useful slope.
struct ThresholdFormula {
  float threshold;

  MILLRACE_HOST_DEVICE float Value(float x) const {
    return kernel_math::Select(x > threshold, 1, 0);
  }
  MILLRACE_HOST_DEVICE float Slope(float, float) const { return 0; }
  bool SlopeNeedsBottom() const { return false; }
};

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

#endif  // MILLRACE_NN_LAYERS_ACTIVATION_NEURON_KERNELS_H_
