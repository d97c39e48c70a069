// Operations (channel_kernels.h) and kernels (device/kernel.h) of layers that subtract the mean of
// a channel and divide by its deviation: batch normalisation, and MVN, whose channels are rows.
// Both keep for each channel the mean and the inverse of the deviation:
//   top = (bottom - mean) * inverse
#ifndef MILLRACE_NN_LAYERS_NORM_NORMALIZE_KERNELS_H_
#define MILLRACE_NN_LAYERS_NORM_NORMALIZE_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "device/atomic_update.h"
#include "nn/layers/channel_kernels.h"

namespace millrace::inline nn {

MILLRACE_HOST_DEVICE ChannelSums SquareOfDeviation(float value, float mean) {
  const float centered = value - mean;
  return {centered * centered, 0};
}

// sum = kept * sum + value; kept = 0: there was no sum, and what `sum` held has no effect.
MILLRACE_HOST_DEVICE void AddToSum(float kept, float value, float* sum) {
  *sum = kept == 0 ? value : kept * *sum + value;
}

// For LaunchStatistics: inverse = 1 / (deviation + eps), as MVN has it.
struct DeviationOfChannels {
  static constexpr bool kStatistics = true;

  int64_t count;
  float eps;
  const float* bottom;
  float* mean;
  float* inverse;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t channel) const {
    return SquareOfDeviation(bottom[i], mean[channel]);
  }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double sum, double) const {
    const double variance = sum / static_cast<double>(count);
    inverse[channel] = static_cast<float>(1 / (sqrt(variance) + double{eps}));
  }
};

// For LaunchStatistics: inverse = 1 / sqrt(variance + eps), as batch normalisation has it. Also
// takes mean and variance into the running sums of the passes of this iteration.
struct VarianceOfChannels {
  static constexpr bool kStatistics = true;

  int64_t count;
  float eps;
  float kept;  // factor of the sums of earlier passes; 0: there are none
  const float* bottom;
  float* mean;
  float* inverse;
  float* mean_sum;  // null: no sums
  float* variance_sum;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t channel) const {
    return SquareOfDeviation(bottom[i], mean[channel]);
  }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double sum, double) const {
    inverse[channel] = static_cast<float>(1 / sqrt(sum / static_cast<double>(count) + double{eps}));
    if (mean_sum == nullptr) return;
    const auto unbiased = static_cast<float>(sum / static_cast<double>(count > 1 ? count - 1 : 1));
    AddToSum(kept, mean[channel], mean_sum + channel);
    AddToSum(kept, unbiased, variance_sum + channel);
  }
};

// The mean of the squared differences from `mean`, which is not this batch's own.
struct MeanSquareOfChannels {
  int64_t count;
  const float* bottom;
  const float* mean;
  float* mean_square;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t channel) const {
    return SquareOfDeviation(bottom[i], mean[channel]);
  }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double sum, double) const {
    mean_square[channel] = static_cast<float>(sum / static_cast<double>(count));
  }
};

// A kernel whose element is a channel: what VarianceOfChannels does with a variance that is known.
struct TakeVariance {
  float eps;
  float unbias;  // count / (count - 1)
  float kept;
  const float* mean;
  const float* variance;
  float* inverse;
  float* mean_sum;  // null: no sums
  float* variance_sum;

  MILLRACE_HOST_DEVICE void operator()(int64_t channel) const {
    inverse[channel] = static_cast<float>(1 / sqrt(double{variance[channel]} + double{eps}));
    if (mean_sum == nullptr) return;
    AddToSum(kept, mean[channel], mean_sum + channel);
    AddToSum(kept, variance[channel] * unbias, variance_sum + channel);
  }
};

template <bool kKeep>
struct NormalizeForward {
  const float* bottom;
  const float* mean;
  const float* inverse;
  float* copy;  // of the bottom, if kKeep
  float* top;   // may be `bottom`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top);
    if constexpr (kKeep) visit(copy);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    const float x = bottom[i];
    if constexpr (kKeep) copy[i] = x;
    top[i] = (x - mean[channel]) * inverse[channel];
  }
};

// The means of d = top_diff and of d * top over a channel.
struct NormalizeSums {
  int64_t count;
  const float* bottom;
  const float* mean;
  const float* inverse;
  const float* top_diff;
  float* diff_mean;
  float* product_mean;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top_diff);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t channel) const {
    const float d = top_diff[i];
    return {d, d * (bottom[i] - mean[channel])};
  }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double diffs, double products) const {
    const auto n = static_cast<double>(count);
    diff_mean[channel] = static_cast<float>(diffs / n);
    product_mean[channel] = static_cast<float>(products / n * double{inverse[channel]});
  }
};

// bottom_diff = inverse * (d - mean(d) - top * mean(d * top))
struct NormalizeBackward {
  const float* bottom;
  const float* mean;
  const float* inverse;
  const float* top_diff;
  const float* diff_mean;
  const float* product_mean;
  float* bottom_diff;  // may be `top_diff`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    const float top = (bottom[i] - mean[channel]) * inverse[channel];
    bottom_diff[i] =
        inverse[channel] * (top_diff[i] - diff_mean[channel] - top * product_mean[channel]);
  }
};

// bottom_diff = d - mean(d): the deviation is not divided by.
struct CenterBackward {
  const float* top_diff;
  const float* diff_mean;
  float* bottom_diff;  // may be `top_diff`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    bottom_diff[i] = top_diff[i] - diff_mean[channel];
  }
};

// bottom_diff = inverse * d: mean and variance do not depend on the bottom.
struct GlobalNormalizeBackward {
  const float* inverse;
  const float* top_diff;
  float* bottom_diff;  // may be `top_diff`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    bottom_diff[i] = inverse[channel] * top_diff[i];
  }
};

// A kernel whose element is a channel: mean and inverse deviation from weighted sums and the sum of
// their weights, which other threads may change meanwhile. All are 0 where that sum is. A quotient
// below 0, of which merged sums may have some rounding, counts as 0.
struct StatisticsOfSums {
  float eps;
  const float* mean_sum;
  const float* variance_sum;
  const float* weight_sum;
  float* mean;
  float* inverse;

  MILLRACE_HOST_DEVICE void operator()(int64_t channel) const {
    const float weight = AtomicLoad(weight_sum);
    const float factor = weight == 0 ? 0.0f : 1 / weight;
    mean[channel] = AtomicLoad(mean_sum + channel) * factor;
    const float variance = AtomicLoad(variance_sum + channel) * factor;
    inverse[channel] = 1 / sqrtf((variance < 0 ? 0.0f : variance) + eps);
  }
};

// A kernel whose element is a statistic of one of the arrays: statistic = kept * statistic + value,
// atomically.
struct AverageInto {
  struct Array {
    int64_t count = 0;
    const float* values = nullptr;
    float value = 0;  // of every element, if `values` is null
    float* statistics = nullptr;
  };
  static constexpr int kMaxArrays = 3;

  float kept;
  Array arrays[kMaxArrays];

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    for (const Array& each : arrays) {
      if (i < each.count) {
        const float added = each.values != nullptr ? each.values[i] : each.value;
        AtomicUpdate(each.statistics + i, [&](float old) { return kept * old + added; });
        return;
      }
      i -= each.count;
    }
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_NORM_NORMALIZE_KERNELS_H_
