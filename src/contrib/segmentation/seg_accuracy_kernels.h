// Kernels (device/kernel.h) of the SegAccuracy layer. A position is an (outer, inner) pair of an
// AxisView.
#ifndef MILLRACE_CONTRIB_SEGMENTATION_SEG_ACCURACY_KERNELS_H_
#define MILLRACE_CONTRIB_SEGMENTATION_SEG_ACCURACY_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/activation/softmax_kernels.h"

namespace millrace::inline contrib {

// One position of the confusion matrix.
struct SegmentedPosition {
  static constexpr int32_t kNone = -1, kInvalid = -2;

  int32_t label;      // its class, kNone if it is ignored, kInvalid if it is no class
  int32_t predicted;  // the class with the best score, kNone if all scores are NaN
};

// Counted positions of one class. Whole numbers, exact up to 2^53.
struct ClassCounts {
  double labels;     // with this label
  double predicted;  // for which this class is predicted
  double right;      // both
};

// An element is a position. Of equal scores the last is the best.
struct PredictPositions {
  ClassesOfRow view;
  int64_t ignored_count;
  const float* ignored;  // labels that are not counted
  const float* scores;
  const float* labels;
  SegmentedPosition* positions;

  MILLRACE_HOST_DEVICE int32_t LabelOf(int64_t row) const {
    const float label = labels[row];
    for (int64_t i = 0; i < ignored_count; ++i) {
      if (truncf(label) == ignored[i]) return SegmentedPosition::kNone;
    }
    const KernelLabels labels_are{view.classes, false, 0};
    const int64_t own = labels_are.Class(label);
    return own < 0 ? SegmentedPosition::kInvalid : static_cast<int32_t>(own);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t row) const {
    float best = -INFINITY;
    int32_t predicted = SegmentedPosition::kNone;
    for (int64_t c = 0; c < view.classes; ++c) {
      const float score = scores[view.At(row, c)];
      if (!(score >= best)) continue;
      best = score;
      predicted = static_cast<int32_t>(c);
    }
    positions[row] = {LabelOf(row), predicted};
  }
};

// A row is a class: its counts, which are added to those of earlier batches if `add`.
struct CountClasses {
  int64_t count;  // of positions
  bool add;
  const SegmentedPosition* positions;
  ClassCounts* counts;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t c) const {
    ClassCounts own{};
    own.labels = team.Sum(count, [&](int64_t i) { return positions[i].label == c ? 1.0f : 0.0f; });
    own.predicted = team.Sum(count, [&](int64_t i) {
      return positions[i].label >= 0 && positions[i].predicted == c ? 1.0f : 0.0f;
    });
    own.right = team.Sum(count, [&](int64_t i) {
      return positions[i].label == c && positions[i].predicted == c ? 1.0f : 0.0f;
    });
    team.Once([&] {
      const ClassCounts earlier = add ? counts[c] : ClassCounts{};
      counts[c] = {earlier.labels + own.labels, earlier.predicted + own.predicted,
                   earlier.right + own.right};
    });
  }
};

// A kernel of one row: the three results, and the number of labels that are no classes.
struct SegAccuracyOfCounts {
  int64_t classes, count;  // count: of positions
  const ClassCounts* counts;
  const SegmentedPosition* positions;
  float* top;
  float* invalid;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t /*row*/) const {
    const double labels = team.Sum(classes, [&](int64_t c) { return counts[c].labels; });
    const double right = team.Sum(classes, [&](int64_t c) { return counts[c].right; });
    const double present =
        team.Sum(classes, [&](int64_t c) { return counts[c].labels > 0 ? 1.0 : 0.0; });
    const double recall = team.Sum(classes, [&](int64_t c) {
      return counts[c].labels > 0 ? counts[c].right / counts[c].labels : 0.0;
    });
    const double overlap = team.Sum(classes, [&](int64_t c) {
      const double either = counts[c].labels + counts[c].predicted - counts[c].right;
      return either > 0 ? counts[c].right / either : 1.0;
    });
    const double wrong_labels = team.Sum(count, [&](int64_t i) {
      return positions[i].label == SegmentedPosition::kInvalid ? 1.0f : 0.0f;
    });
    team.Once([&] {
      top[0] = static_cast<float>(labels > 0 ? right / labels : 0);
      top[1] = static_cast<float>(present > 0 ? recall / present : 0);
      top[2] = static_cast<float>(overlap / static_cast<double>(classes));
      *invalid = static_cast<float>(wrong_labels);
    });
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_SEGMENTATION_SEG_ACCURACY_KERNELS_H_
