// Kernels (device/kernel.h) of UnitRows.
#ifndef MILLRACE_NN_LAYERS_INNER_PRODUCT_UNIT_ROWS_KERNELS_H_
#define MILLRACE_NN_LAYERS_INNER_PRODUCT_UNIT_ROWS_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

// An element is a value of the matrix: unit = value / the length of its row.
struct ScaleToUnit {
  Divisor columns;
  const float* inverse;  // 1 / length, of each row
  const float* values;
  float* unit;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    unit[i] = values[i] * inverse[i / columns];
  }
};

// A row is a row of the matrix: the gradient by its values, given that by the unit row. It is
// orthogonal to the row. Added to `diff` if `add`.
struct UnitRowGradient {
  int64_t columns;
  bool add;
  const float* inverse;
  const float* unit;
  const float* unit_diff;
  float* diff;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const int64_t begin = row * columns;
    const auto along = static_cast<float>(
        team.Sum(columns, [&](int64_t k) { return unit_diff[begin + k] * unit[begin + k]; }));
    const float factor = inverse[row];
    team.ForEach(columns, [&](int64_t k) {
      const int64_t i = begin + k;
      diff[i] = (add ? diff[i] : 0.0f) + factor * (unit_diff[i] - along * unit[i]);
    });
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INNER_PRODUCT_UNIT_ROWS_KERNELS_H_
