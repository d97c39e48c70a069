// Kernel (device/kernel.h) of the ArgMax layer.
#ifndef MILLRACE_NN_LAYERS_UTILITY_ARGMAX_KERNELS_H_
#define MILLRACE_NN_LAYERS_UTILITY_ARGMAX_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// The bottom is {outer, length, inner}. A row of the kernel is a position (outer, inner): its
// top_k largest values in descending order; of equal values the one with the larger index is
// first, and NaN counts as larger than all numbers. Rank j of position (o, i) is written to element
// (o * top_step + j) * inner + i of each output that is not null.
struct LargestOfRows {
  int64_t length, inner, top_k, top_step;
  const float* bottom;
  float* indices;
  float* values;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const int64_t outer = row / inner, place = row % inner;
    const float* from = bottom + outer * length * inner + place;
    float last = 0;  // value and index of the rank before
    int64_t last_index = -1;
    for (int64_t j = 0; j < top_k; ++j) {
      const auto remains = [&](int64_t i) {
        const float value = from[i * inner];
        return last_index < 0 || Less(value, i, last, last_index);
      };
      const float largest =
          team.Max(length, [&](int64_t i) { return remains(i) ? from[i * inner] : -kInfinity; });
      const float index = team.Max(length, [&](int64_t i) {
        const float value = from[i * inner];
        const bool equal = value == largest || (value != value && largest != largest);
        return equal && remains(i) ? static_cast<float>(i) : -1.0f;
      });
      last = largest;
      last_index = static_cast<int64_t>(index);
      team.Once([&] {
        const int64_t to = (outer * top_step + j) * inner + place;
        if (indices) indices[to] = index;
        if (values) values[to] = largest;
      });
    }
  }

 private:
  static constexpr float kInfinity = __builtin_huge_valf();

  static MILLRACE_HOST_DEVICE bool Less(float a, int64_t a_index, float b, int64_t b_index) {
    const bool a_nan = a != a, b_nan = b != b;
    if (a_nan || b_nan) return a_nan == b_nan ? a_index < b_index : b_nan;
    return a < b || (a == b && a_index < b_index);
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_UTILITY_ARGMAX_KERNELS_H_
