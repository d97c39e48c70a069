// Kernels (device/kernel.h) of the LRN layer, for plain order.
#ifndef MILLRACE_NN_LAYERS_LRN_KERNELS_H_
#define MILLRACE_NN_LAYERS_LRN_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// The region around a value: `reach` channels on each side, or `reach` rows and columns.
struct LrnRegion {
  bool across;  // channels
  int64_t channels, height, width, reach;

  // The sum of term(j) over the region of value i.
  template <typename Term>
  MILLRACE_HOST_DEVICE float Sum(int64_t i, Term term) const {
    const int64_t plane = height * width;
    float sum = 0;
    if (across) {
      const int64_t c = i / plane % channels;
      const int64_t begin = c < reach ? -c : -reach;
      const int64_t end = c + reach < channels ? reach : channels - 1 - c;
      for (int64_t k = begin; k <= end; ++k) sum += term(i + k * plane);
      return sum;
    }
    const int64_t x = i % width, y = i / width % height;
    for (int64_t dy = y < reach ? -y : -reach; dy <= reach && y + dy < height; ++dy) {
      for (int64_t dx = x < reach ? -x : -reach; dx <= reach && x + dx < width; ++dx) {
        sum += term(i + dy * width + dx);
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

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(bottom), visit(scale), visit(top);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float squares = region.Sum(i, [&](int64_t j) { return bottom[j] * bottom[j]; });
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

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(bottom), visit(scale), visit(top_diff), visit(bottom_diff);
    if (top) visit(top);
  }
  MILLRACE_HOST_DEVICE float TopByScale(int64_t i) const {
    return top ? top[i] / scale[i] : bottom[i] * powf(scale[i], -beta - 1);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float sum = region.Sum(i, [&](int64_t j) { return top_diff[j] * TopByScale(j); });
    bottom_diff[i] = top_diff[i] * powf(scale[i], -beta) - 2 * alpha_by_n * beta * bottom[i] * sum;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LRN_KERNELS_H_
