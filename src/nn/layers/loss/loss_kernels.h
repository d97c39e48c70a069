// Kernels (device/kernel.h) that add up a loss. The elements are divided into parts, each of which
// one team adds up; then one team adds up the parts. The order of additions does not depend on
// timing.
//
// A loss describes its elements by a struct of numbers and pointers, its terms, with
//   template <typename Visit> void Pointers(Visit visit)   as a kernel has
//   float Value(int64_t i) const       what element i adds to the loss, before the division
//   static constexpr bool kLabels      whether it also has:
//   float Counted(int64_t i) const     what element i adds to the number of counted positions
//   float Invalid(int64_t i) const     1 if element i shows a label that is not a class
#ifndef MILLRACE_NN_LAYERS_LOSS_LOSS_KERNELS_H_
#define MILLRACE_NN_LAYERS_LOSS_LOSS_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/activation/softmax_kernels.h"

namespace millrace::inline nn {

// Sums over the elements of one part.
struct LossPart {
  double value, counted, invalid;
};

// A row is a part.
template <typename Terms>
struct LossParts {
  int64_t count, parts;  // of elements, of parts
  Terms terms;
  LossPart* sums;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t part) const {
    const int64_t begin = count * part / parts, n = count * (part + 1) / parts - begin;
    LossPart sum{0, 0, 0};
    sum.value = team.Sum(n, [&](int64_t i) { return terms.Value(begin + i); });
    if constexpr (Terms::kLabels) {
      sum.counted = team.Sum(n, [&](int64_t i) { return terms.Counted(begin + i); });
      sum.invalid = team.Sum(n, [&](int64_t i) { return terms.Invalid(begin + i); });
    }
    team.Once([&] { sums[part] = sum; });
  }
};

// The number that a loss is divided by.
struct LossNormalizer {
  bool by_counted;  // the number of counted positions, at least 1
  float fixed;      // otherwise
};

// A kernel of one row: the loss, given the sums of all parts.
struct LossOfParts {
  int64_t parts;
  LossNormalizer normalizer;
  const LossPart* sums;
  PositionTotals* totals;
  float* loss;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t /*row*/) const {
    const double value = team.Sum(parts, [&](int64_t i) { return sums[i].value; });
    const double counted = team.Sum(parts, [&](int64_t i) { return sums[i].counted; });
    const double invalid = team.Sum(parts, [&](int64_t i) { return sums[i].invalid; });
    team.Once([&] {
      const double least = counted > 1 ? counted : 1;
      const double divisor = normalizer.by_counted ? least : static_cast<double>(normalizer.fixed);
      totals->normalizer = static_cast<float>(divisor);
      totals->invalid = static_cast<float>(invalid);
      *loss = static_cast<float>(value / divisor);
    });
  }
};

// dE/dloss divided by the normalizer of the forward pass: the factor of all gradients.
struct LossScale {
  const float* loss_diff;
  const PositionTotals* totals;

  MILLRACE_HOST_DEVICE float Get() const { return *loss_diff / totals->normalizer; }
};

// The diff of one bottom of a loss of the differences bottom[0] - bottom[1]. The terms also have
//   float Slope(int64_t i) const       the derivative of Value(i) by that difference
// `sign` is 1 for bottom 0 and -1 for bottom 1.
template <typename Terms>
struct DifferenceBackward {
  LossScale scale;
  Terms terms;
  float sign;
  float* diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    diff[i] = sign * scale.Get() * terms.Slope(i);
  }
};

// Class labels of the terms of a loss over an AxisView, whose elements are scores.
struct LabelsOfScores {
  ClassesOfRow view;
  KernelLabels labels_are;
  const float* labels;

  // The label that applies to element i, KernelLabels::kIgnored or kInvalid.
  MILLRACE_HOST_DEVICE int64_t At(int64_t i) const {
    return labels_are.Class(labels[view.RowOf(i)]);
  }
  // These count each position once, at the element of its class 0.
  MILLRACE_HOST_DEVICE float Counted(int64_t i) const {
    return view.ClassOf(i) == 0 && At(i) >= 0 ? 1.0f : 0.0f;
  }
  MILLRACE_HOST_DEVICE float Invalid(int64_t i) const {
    return view.ClassOf(i) == 0 && At(i) == KernelLabels::kInvalid ? 1.0f : 0.0f;
  }
};

// The same for terms whose elements are positions.
struct LabelsOfPositions {
  KernelLabels labels_are;
  const float* labels;

  MILLRACE_HOST_DEVICE int64_t At(int64_t row) const { return labels_are.Class(labels[row]); }
  MILLRACE_HOST_DEVICE float Counted(int64_t row) const { return At(row) >= 0 ? 1.0f : 0.0f; }
  MILLRACE_HOST_DEVICE float Invalid(int64_t row) const {
    return At(row) == KernelLabels::kInvalid ? 1.0f : 0.0f;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LOSS_LOSS_KERNELS_H_
