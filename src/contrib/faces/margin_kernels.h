// Kernels of layers with margins between classes.
#ifndef MILLRACE_CONTRIB_FACES_MARGIN_KERNELS_H_
#define MILLRACE_CONTRIB_FACES_MARGIN_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/activation/softmax_kernels.h"

namespace millrace::inline contrib {

// Formulas and kernels (device/kernel.h) of layers that change the score of each example's label.
// Scores are {examples, classes}. A formula has
//   float Value(float x) const    the score of the label, given that before the margin
//   float Slope(float x) const    its derivative

// x + bias, where that is above 0 (a bias is negative); x elsewhere.
struct AddedMargin {
  float bias;

  MILLRACE_HOST_DEVICE float Value(float x) const { return x > -bias ? x + bias : x; }
  MILLRACE_HOST_DEVICE float Slope(float) const { return 1; }
};

// The cosine of an angle increased by m, given its cosine; beyond pi - m, where that would fall no
// more, x - m sin(m). As in Caffe, the slope is 1 there and at x >= 1, where it is infinite.
struct AngleMargin {
  float cos_m, sin_m;
  float step;  // m sin(m)

  MILLRACE_HOST_DEVICE float Value(float x) const {
    if (x <= -cos_m) return x - step;
    if (x >= 1) return cos_m;
    return x * cos_m - sqrtf(1 - x * x) * sin_m;
  }
  MILLRACE_HOST_DEVICE float Slope(float x) const {
    if (x <= -cos_m || x >= 1) return 1;
    return cos_m + sin_m * x / sqrtf(1 - x * x);
  }
};

// An element is a score.
template <typename Formula>
struct LabelMarginForward {
  Formula formula;
  int64_t classes;
  const float* labels;
  const float* scores;
  float* top;  // may be `scores`

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const KernelLabels labels_are{classes, false, 0};
    const bool own = labels_are.Class(labels[i / classes]) == i % classes;
    top[i] = own ? formula.Value(scores[i]) : scores[i];
  }
};

// An element is a score.
template <typename Formula>
struct LabelMarginBackward {
  Formula formula;
  int64_t classes;
  const float* labels;
  const float* scores;
  const float* top_diff;
  float* diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const KernelLabels labels_are{classes, false, 0};
    const bool own = labels_are.Class(labels[i / classes]) == i % classes;
    diff[i] = own ? top_diff[i] * formula.Slope(scores[i]) : top_diff[i];
  }
};

// Kernels (device/kernel.h) of the MarginInnerProduct layer. Arrays of scores are
// {examples, classes}; `inverse` arrays hold 1 / the length of an example or of a class's weights.

// psi as a function of the cosine: (-1)^k cos(m a) - 2k for the angle a from k pi/m to
// (k + 1) pi/m. It falls from 1 to 1 - 2m, and its derivative has no jump.
struct AngularMargin {
  int multiple;  // m, 1 to 4

  MILLRACE_HOST_DEVICE int Piece(float cosine) const {
    constexpr float kRootOfHalf = 0.70710678f;
    if (multiple == 2) return cosine < 0;
    if (multiple == 3) return (cosine < 0.5f) + (cosine < -0.5f);
    if (multiple == 4) return (cosine < kRootOfHalf) + (cosine < 0) + (cosine < -kRootOfHalf);
    return 0;
  }
  MILLRACE_HOST_DEVICE float Value(float c) const {
    const float cosine = multiple == 1   ? c
                         : multiple == 2 ? 2 * c * c - 1
                         : multiple == 3 ? (4 * c * c - 3) * c
                                         : 8 * c * c * (c * c - 1) + 1;
    const int piece = Piece(c);
    return (piece % 2 == 0 ? cosine : -cosine) - static_cast<float>(2 * piece);
  }
  MILLRACE_HOST_DEVICE float Slope(float c) const {
    const float slope = multiple == 1   ? 1
                        : multiple == 2 ? 4 * c
                        : multiple == 3 ? 12 * c * c - 3
                                        : (32 * c * c - 16) * c;
    return Piece(c) % 2 == 0 ? slope : -slope;
  }
};

// The scores of examples before the margin, and all that it depends on.
struct MarginScores {
  AngularMargin margin;
  float lambda;
  int64_t classes;
  KernelLabels labels_are;
  const float* labels;
  const float* inverse_example;
  const float* inverse_class;
  const float* products;  // of the examples and the weights

  MILLRACE_HOST_DEVICE int64_t LabelOf(int64_t example) const {
    return labels_are.Class(labels[example]);
  }
  // The product of the example and the weights of length 1.
  MILLRACE_HOST_DEVICE float Product(int64_t i) const {
    return products[i] * inverse_class[i % classes];
  }
  // Rounding must not take the cosine out of its range.
  MILLRACE_HOST_DEVICE float Cosine(int64_t i) const {
    const float cosine = Product(i) * inverse_example[i / classes];
    return cosine > 1 ? 1.0f : cosine < -1 ? -1.0f : cosine;
  }
};

// An element is a score.
struct MarginForward {
  MarginScores scores;
  float* top;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float product = scores.Product(i), lambda = scores.lambda;
    const int64_t example = i / scores.classes;
    if (scores.LabelOf(example) != i % scores.classes) {
      top[i] = product;
      return;
    }
    const float value = scores.margin.Value(scores.Cosine(i)) / scores.inverse_example[example];
    top[i] = (lambda * product + value) / (1 + lambda);
  }
};

// An element is a score: its gradient by the product of the example and the weights.
struct MarginBackward {
  MarginScores scores;
  const float* top_diff;
  float* product_diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float lambda = scores.lambda;
    const bool own = scores.LabelOf(i / scores.classes) == i % scores.classes;
    const float slope =
        own ? (lambda + scores.margin.Slope(scores.Cosine(i))) / (1 + lambda) : 1.0f;
    product_diff[i] = top_diff[i] * slope * scores.inverse_class[i % scores.classes];
  }
};

// A row is an example: adds the part of its gradient that flows through its length.
struct MarginOfLength {
  MarginScores scores;
  int64_t features;
  const float* top_diff;
  const float* values;
  float* diff;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t example) const {
    const int64_t label = scores.LabelOf(example);
    if (label < 0) return;
    const int64_t i = example * scores.classes + label;
    const float c = scores.Cosine(i);
    const float by_length =
        (scores.margin.Value(c) - c * scores.margin.Slope(c)) / (1 + scores.lambda);
    const float factor = top_diff[i] * by_length * scores.inverse_example[example];
    const int64_t begin = example * features;
    team.ForEach(features, [&](int64_t k) { diff[begin + k] += factor * values[begin + k]; });
  }
};

// A row is a class: sums[class] is the sum over the examples of product_diff * product.
struct MarginSumOfClass {
  MarginScores scores;
  int64_t examples;
  const float* product_diff;
  float* sums;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const double sum = team.Sum(examples, [&](int64_t m) {
      const int64_t i = m * scores.classes + row;
      return product_diff[i] * scores.Product(i);
    });
    team.Once([&] { sums[row] = static_cast<float>(sum); });
  }
};

// An element is a weight: takes the part of its gradient away that would change the length.
struct MarginOfWeights {
  int64_t features;
  const float* sums;
  const float* inverse_class;
  const float* weights;
  float* diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / features;
    diff[i] -= sums[row] * inverse_class[row] * weights[i];
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_FACES_MARGIN_KERNELS_H_
