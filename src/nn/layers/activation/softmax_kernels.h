// Kernels (device/kernel.h) of softmax, of its loss and of accuracy. A row of the kernels is a
// position: an (outer, inner) pair of an AxisView, as is an index of the labels.
#ifndef MILLRACE_NN_LAYERS_ACTIVATION_SOFTMAX_KERNELS_H_
#define MILLRACE_NN_LAYERS_ACTIVATION_SOFTMAX_KERNELS_H_

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

// The classes of one position in arrays of an AxisView.
struct ClassesOfRow {
  Divisor classes, inner;

  // Elements of `rows` rows.
  int64_t Extent(int64_t rows) const { return rows * classes; }
  template <typename Index>
  MILLRACE_HOST_DEVICE Index At(Index row, Index c) const {
    return (row / inner * classes + c) * inner + row % inner;
  }
  // The row and the class of element i.
  template <typename Index>
  MILLRACE_HOST_DEVICE Index RowOf(Index i) const {
    return i / inner / classes * inner + i % inner;
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE Index ClassOf(Index i) const {
    return i / inner % classes;
  }
};

struct SoftmaxForward {
  ClassesOfRow view;
  const float* in;
  float* out;  // may be `in`

  int64_t Extent(int64_t rows) const { return view.Extent(rows); }
  template <typename Team, typename Index>
  MILLRACE_HOST_DEVICE void operator()(Team& team, Index row) const {
    const float largest =
        team.Max(static_cast<Index>(view.classes), [&](Index c) { return in[view.At(row, c)]; });
    const double sum = team.Sum(static_cast<Index>(view.classes), [&](Index c) {
      return out[view.At(row, c)] = expf(in[view.At(row, c)] - largest);
    });
    const auto factor = static_cast<float>(1 / sum);
    team.ForEach(static_cast<Index>(view.classes),
                 [&](Index c) { out[view.At(row, c)] *= factor; });
  }
};

struct SoftmaxBackward {
  ClassesOfRow view;
  const float* top;
  const float* top_diff;
  float* bottom_diff;  // may be `top_diff`

  int64_t Extent(int64_t rows) const { return view.Extent(rows); }
  template <typename Team, typename Index>
  MILLRACE_HOST_DEVICE void operator()(Team& team, Index row) const {
    const auto dot = static_cast<float>(team.Sum(static_cast<Index>(view.classes), [&](Index c) {
      return top[view.At(row, c)] * top_diff[view.At(row, c)];
    }));
    team.ForEach(static_cast<Index>(view.classes), [&](Index c) {
      const Index at = view.At(row, c);
      bottom_diff[at] = top[at] * (top_diff[at] - dot);
    });
  }
};

// Labels as kernels read them.
struct KernelLabels {
  static constexpr int64_t kIgnored = -1, kInvalid = -2;

  int64_t classes;
  bool has_ignored;
  float ignored;

  // The class, kIgnored or kInvalid.
  MILLRACE_HOST_DEVICE int64_t Class(float label) const {
    if (has_ignored && truncf(label) == ignored) return kIgnored;
    if (!(label >= 0 && label < static_cast<float>(classes))) return kInvalid;
    return static_cast<int64_t>(label);
  }
};

// What a position contributes to a result.
struct PositionResult {
  float value;    // its loss, or 1 if it is right
  float counted;  // 1, or 0 if its label is ignored or invalid
  float invalid;  // 1 if its label is not a class
};

// The loss of each position, given its probabilities.
struct LossOfPositions {
  ClassesOfRow view;
  KernelLabels labels_are;
  const float* probability;
  const float* labels;
  const float* class_weights;  // factors of the losses; null: 1
  PositionResult* results;
  float* losses;  // receives the losses, too; may be null

  int64_t Extent(int64_t rows) const { return view.Extent(rows); }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index row) const {
    const int64_t label = labels_are.Class(labels[row]);
    PositionResult result{0, 0, label == KernelLabels::kInvalid ? 1.0f : 0.0f};
    if (label >= 0) {
      const float p = probability[view.At(row, static_cast<Index>(label))];
      const float loss = -logf(p < FLT_MIN ? FLT_MIN : p);  // NaN stays NaN
      result = {loss * (class_weights ? class_weights[label] : 1.0f), 1, 0};
    }
    results[row] = result;
    if (losses) losses[row] = result.value;
  }
};

// Whether the label of each position is among the top_k best scores.
struct RightPositions {
  ClassesOfRow view;
  KernelLabels labels_are;
  int64_t top_k;
  const float* scores;
  const float* labels;
  PositionResult* results;

  int64_t Extent(int64_t rows) const { return view.Extent(rows); }
  template <typename Team, typename Index>
  MILLRACE_HOST_DEVICE void operator()(Team& team, Index row) const {
    const int64_t label = labels_are.Class(labels[row]);
    const float own = label >= 0 ? scores[view.At(row, static_cast<Index>(label))] : 0;
    // The sum also counts the label itself.
    const double not_worse = team.Sum(static_cast<Index>(view.classes), [&](Index c) {
      return scores[view.At(row, c)] < own ? 0.0f : 1.0f;
    });
    PositionResult result{0, label >= 0 ? 1.0f : 0.0f,
                          label == KernelLabels::kInvalid ? 1.0f : 0.0f};
    if (label >= 0 && not_worse - 1 < static_cast<double>(top_k)) result.value = 1;
    team.Once([&] { results[row] = result; });
  }
};

// What the host and the backward pass need to know of all positions.
struct PositionTotals {
  float normalizer;
  float invalid;  // number of labels that are not classes
};

// A kernel of one row: the sum of the values of all positions divided by a normalizer; NaN if there
// is an invalid label.
struct MeanOfPositions {
  int64_t positions;
  bool by_counted;   // the normalizer is the number of counted positions, at least 1
  float normalizer;  // otherwise
  const PositionResult* results;
  PositionTotals* totals;
  float* mean;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t /*row*/) const {
    const double sum = team.Sum(positions, [&](int64_t i) { return results[i].value; });
    const double counted = team.Sum(positions, [&](int64_t i) { return results[i].counted; });
    const double invalid = team.Sum(positions, [&](int64_t i) { return results[i].invalid; });
    team.Once([&] {
      const double least = counted > 1 ? counted : 1;
      const double divisor = by_counted ? least : static_cast<double>(normalizer);
      totals->normalizer = static_cast<float>(divisor);
      totals->invalid = static_cast<float>(invalid);
      // The host finds the invalid label later (Layer::CheckForward) than a recorded update runs.
      *mean = invalid > 0 ? NAN : static_cast<float>(sum / divisor);
    });
  }
};

// The mean of the values of the positions of each class; a row is a class. 0 without positions.
struct MeanOfClasses {
  int64_t positions;
  KernelLabels labels_are;
  const float* labels;
  const PositionResult* results;
  float* means;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t c) const {
    const double sum = team.Sum(positions, [&](int64_t i) {
      return labels_are.Class(labels[i]) == c ? results[i].value : 0.0f;
    });
    const double counted = team.Sum(
        positions, [&](int64_t i) { return labels_are.Class(labels[i]) == c ? 1.0f : 0.0f; });
    team.Once([&] { means[c] = counted > 0 ? static_cast<float>(sum / counted) : 0.0f; });
  }
};

// An element is a probability.
struct SoftmaxLossBackward {
  ClassesOfRow view;
  KernelLabels labels_are;
  const float* probability;
  const float* labels;
  const float* class_weights;  // null: 1
  const PositionTotals* totals;
  const float* loss_weight;
  float* bottom_diff;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const int64_t c = view.ClassOf(i);
    const int64_t label = labels_are.Class(labels[view.RowOf(i)]);
    const float scale = *loss_weight / totals->normalizer;
    const float diff = scale * probability[i] - (c == label ? scale : 0.0f);
    const float weight = label >= 0 && class_weights ? class_weights[label] : 1.0f;
    bottom_diff[i] = label >= 0 ? weight * diff : 0.0f;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ACTIVATION_SOFTMAX_KERNELS_H_
