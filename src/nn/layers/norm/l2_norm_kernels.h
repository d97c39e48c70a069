// Kernels (device/kernel.h) of the Normalize layer. Blobs are {images, channels, area}; `inverse`
// is 1 / the norm, by position of an image or by image.
#ifndef MILLRACE_NN_LAYERS_NORM_L2_NORM_KERNELS_H_
#define MILLRACE_NN_LAYERS_NORM_L2_NORM_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// An element is a position of one image.
struct InverseNormOfPosition {
  int64_t channels, area;
  float eps;
  const float* values;  // of the image
  float* inverse;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    float sum = eps;
    for (int64_t c = 0; c < channels; ++c) {
      const float x = values[c * area + i];
      sum += x * x;
    }
    inverse[i] = 1 / sqrtf(sum);
  }
};

// A row is an image of `count` values.
struct InverseNormOfImage {
  int64_t count;
  float eps;
  const float* values;
  float* inverse;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const float* const own = values + row * count;
    const double sum = team.Sum(count, [&](int64_t i) { return own[i] * own[i]; });
    team.Once([&] { inverse[row] = static_cast<float>(1 / sqrt(sum + double{eps})); });
  }
};

// Where the norms and scales of a row, a channel of an image, lie.
struct L2NormView {
  int64_t channels, area;
  bool by_image;  // one norm per image
  bool shared;    // one scale for all channels
  const float* inverse;
  const float* scale;

  MILLRACE_HOST_DEVICE float Scale(int64_t row) const { return scale[shared ? 0 : row % channels]; }
  // The index in `inverse` of position k of the row.
  MILLRACE_HOST_DEVICE int64_t NormAt(int64_t row, int64_t k) const {
    return by_image ? row / channels : row / channels * area + k;
  }
};

// A row is a channel of an image: top = scale * bottom / norm.
struct L2NormForward {
  L2NormView view;
  const float* bottom;
  float* top;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const float scale = view.Scale(row);
    const float* const x = bottom + row * view.area;
    float* const y = top + row * view.area;
    team.ForEach(view.area,
                 [&](int64_t k) { y[k] = scale * (x[k] * view.inverse[view.NormAt(row, k)]); });
  }
};

// An element is a position of one image: the sum over its channels of scale * bottom * top_diff.
struct L2NormProductOfPosition {
  int64_t channels, area;
  bool shared;
  const float* scale;
  const float* bottom;  // of the image
  const float* top_diff;
  float* product;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    float sum = 0;
    for (int64_t c = 0; c < channels; ++c) {
      sum += scale[shared ? 0 : c] * bottom[c * area + i] * top_diff[c * area + i];
    }
    product[i] = sum;
  }
};

// A row is an image: the same sum over all its values.
struct L2NormProductOfImage {
  int64_t channels, area;
  bool shared;
  const float* scale;
  const float* bottom;
  const float* top_diff;
  float* product;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const int64_t begin = row * channels * area;
    const double sum = team.Sum(channels * area, [&](int64_t i) {
      return scale[shared ? 0 : i / area] * bottom[begin + i] * top_diff[begin + i];
    });
    team.Once([&] { product[row] = static_cast<float>(sum); });
  }
};

// A row is a channel of an image.
struct L2NormBackward {
  L2NormView view;
  const float* bottom;
  const float* top_diff;
  const float* product;
  float* bottom_diff;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const float scale = view.Scale(row);
    const int64_t begin = row * view.area;
    team.ForEach(view.area, [&](int64_t k) {
      const int64_t at = view.NormAt(row, k);
      const float inverse = view.inverse[at];
      const float along = bottom[begin + k] * inverse * (product[at] * inverse);
      bottom_diff[begin + k] = inverse * (scale * top_diff[begin + k] - along);
    });
  }
};

// A row is a channel: the derivative by its scale, which is added to `gradient` if `add`.
struct L2NormScaleGradient {
  L2NormView view;
  int64_t images;
  bool add;
  const float* bottom;
  const float* top_diff;
  float* gradient;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t channel) const {
    const double sum = team.Sum(images * view.area, [&](int64_t i) {
      const int64_t row = i / view.area * view.channels + channel, k = i % view.area;
      const int64_t at = row * view.area + k;
      return bottom[at] * view.inverse[view.NormAt(row, k)] * top_diff[at];
    });
    team.Once([&] {
      gradient[channel] = static_cast<float>((add ? double{gradient[channel]} : 0.0) + sum);
    });
  }
};

// A kernel of one row: the derivative by the shared scale, from those of the channels.
struct L2NormSharedGradient {
  int64_t channels;
  bool add;
  const float* of_channels;
  float* gradient;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t) const {
    const double sum = team.Sum(channels, [&](int64_t c) { return of_channels[c]; });
    team.Once([&] { *gradient = static_cast<float>((add ? double{*gradient} : 0.0) + sum); });
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_NORM_L2_NORM_KERNELS_H_
