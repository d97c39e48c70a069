// Kernels (device/kernel.h) of the InnerDistance layer. Arrays: examples {rows, features}, centers
// {centers, features}, distances {rows, centers}.
#ifndef MILLRACE_NN_LAYERS_INNER_DISTANCE_KERNELS_H_
#define MILLRACE_NN_LAYERS_INNER_DISTANCE_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/softmax_kernels.h"

namespace millrace::inline nn {

// What the distance of an example and a center adds up for each feature.
struct DistanceOfFeature {
  bool squares;  // (x - center)^2; otherwise |x - center|

  MILLRACE_HOST_DEVICE float Value(float d) const { return squares ? d * d : fabsf(d); }
  MILLRACE_HOST_DEVICE float Slope(float d) const {
    if (squares) return 2 * d;
    return d > 0 ? 1.0f : d < 0 ? -1.0f : d;  // NaN stays NaN
  }
};

// A row is a distance.
struct InnerDistances {
  DistanceOfFeature distance;
  int64_t centers, features;
  const float* examples;
  const float* center_values;
  float* top;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(examples), visit(center_values), visit(top);
  }
  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t i) const {
    const float* const x = examples + i / centers * features;
    const float* const center = center_values + i % centers * features;
    const double sum =
        team.Sum(features, [&](int64_t k) { return distance.Value(x[k] - center[k]); });
    team.Once([&] { top[i] = static_cast<float>(sum); });
  }
};

// An element is a feature of an example.
struct InnerDistanceOfExamples {
  DistanceOfFeature distance;
  int64_t centers, features;
  const float* examples;
  const float* center_values;
  const float* top_diff;
  float* diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(examples), visit(center_values), visit(top_diff), visit(diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t m = i / features, k = i % features;
    float sum = 0;
    for (int64_t n = 0; n < centers; ++n) {
      sum +=
          top_diff[m * centers + n] * distance.Slope(examples[i] - center_values[n * features + k]);
    }
    diff[i] = sum;
  }
};

// An element is a feature of a center. With `labels`, a center has a gradient from the examples of
// its class alone. Added to `diff` if `add`.
struct InnerDistanceOfCenters {
  DistanceOfFeature distance;
  int64_t rows, centers, features;
  bool add;
  const float* examples;
  const float* center_values;
  const float* labels;  // may be null
  const float* top_diff;
  float* diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(examples), visit(center_values), visit(top_diff), visit(diff);
    if (labels) visit(labels);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t n = i / features, k = i % features;
    const KernelLabels labels_are{centers, false, 0};
    float sum = add ? diff[i] : 0.0f;
    for (int64_t m = 0; m < rows; ++m) {
      if (labels && labels_are.Class(labels[m]) != n) continue;
      sum +=
          top_diff[m * centers + n] * distance.Slope(center_values[i] - examples[m * features + k]);
    }
    diff[i] = sum;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INNER_DISTANCE_KERNELS_H_
