// Kernels (device/kernel.h) of the LRN layer, for plain order.
#ifndef MILLRACE_NN_LAYERS_NORM_LRN_KERNELS_H_
#define MILLRACE_NN_LAYERS_NORM_LRN_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

// The region around a value: `reach` channels on each side, or `reach` rows and columns.
struct LrnRegion {
  bool across;  // channels
  Divisor channels, height, width;
  int64_t reach;

  // The sum of term(j) over the region of value i.
  template <typename Index, typename Term>
  MILLRACE_HOST_DEVICE float Sum(Index i, Term term) const {
    const auto most = static_cast<Index>(reach);
    float sum = 0;
    if (across) {
      const Index plane = static_cast<Index>(height) * width;
      const Index c = i / width / height % channels;
      const Index first = c < most ? c : most, last = static_cast<Index>(channels) - 1 - c;
      Index j = i - first * plane;
      for (Index k = -first; k <= (last < most ? last : most); ++k, j += plane) sum += term(j);
      return sum;
    }
    const Index x = i % width, y = i / width % height;
    const auto columns = static_cast<Index>(width), rows = static_cast<Index>(height);
    for (Index dy = y < most ? -y : -most; dy <= most && y + dy < rows; ++dy) {
      for (Index dx = x < most ? -x : -most; dx <= most && x + dx < columns; ++dx) {
        sum += term(i + dy * columns + dx);
      }
    }
    return sum;
  }
};

struct LrnForward {
  LrnRegion region;
  float k, alpha_by_n, beta;
  const float* bottom;
  float* scale;  // k + alpha/n * sum of squares
  float* top;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const float squares = region.Sum(i, [&](Index j) { return bottom[j] * bottom[j]; });
    scale[i] = k + alpha_by_n * squares;
    top[i] = bottom[i] * powf(scale[i], -beta);
  }
};

// dE/dx[i] = dE/dy[i] scale[i]^-beta
//            - 2 alpha beta / n x[i] * sum over j in the region of dE/dy[j] y[j] / scale[j]
struct LrnBackward {
  LrnRegion region;
  float alpha_by_n, beta;
  const float* bottom;
  const float* scale;
  const float* top;  // null if later layers may have overwritten it: computed again
  const float* top_diff;
  float* bottom_diff;

  static int64_t Extent(int64_t count) { return count; }
  MILLRACE_HOST_DEVICE float TopByScale(int64_t i) const {
    return top ? top[i] / scale[i] : bottom[i] * powf(scale[i], -beta - 1);
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const float sum = region.Sum(i, [&](Index j) { return top_diff[j] * TopByScale(j); });
    bottom_diff[i] = top_diff[i] * powf(scale[i], -beta) - 2 * alpha_by_n * beta * bottom[i] * sum;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_NORM_LRN_KERNELS_H_
