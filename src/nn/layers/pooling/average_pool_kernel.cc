#include "nn/layers/pooling/host_pooling.h"

#include <vector>

#include "base/simd.h"

namespace millrace::inline nn {
namespace {

// A one-lane vector set, for channels that do not fill a vector.
struct One {
  using Float = float;
};

// The tables for one axis that both passes use.
struct Axis {
  std::vector<Range> windows;  // per top position: the part of the bottom in its window
  std::vector<Range> over;     // per bottom position: the top positions whose windows contain it
  // Per top position: 1 / length of the window, clipped as Caffe does; 0 if the window is empty.
  std::vector<float> scale;
};

Axis AxisOf(const PoolingShape& shape, int axis) {
  Axis result;
  for (int64_t i = 0; i < shape.out[axis]; ++i) {
    const int64_t size = shape.PaddedSize(axis, i);
    result.windows.push_back(WindowOf(shape, axis, i));
    result.scale.push_back(size > 0 ? 1.0f / static_cast<float>(size) : 0.0f);
  }
  for (int64_t i = 0; i < shape.in[axis]; ++i) result.over.push_back(WindowsOver(shape, axis, i));
  return result;
}

// Sums a rectangle of rows and columns of `plane`, whose rows are `width` positions long, into
// `to`. With kScaled, multiplies each value by row_scale * column_scale of its position; otherwise
// multiplies the sum by `factor`.
template <typename Set, bool kScaled>
inline __attribute__((always_inline)) void SumOne(Range rows, Range columns, int64_t width,
                                                  int64_t inner, const float* plane,
                                                  const float* row_scale, const float* column_scale,
                                                  float factor, float* to) {
  using Vector = typename Set::Float;
  Vector sum = {};
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const float* from = plane + (y * width + columns.begin) * inner;
    for (int64_t x = columns.begin; x < columns.end; ++x, from += inner) {
      const Vector value = *reinterpret_cast<const Vector*>(from);
      if constexpr (kScaled) {
        sum += value * (row_scale[y] * column_scale[x]);
      } else {
        sum += value;
      }
    }
  }
  *reinterpret_cast<Vector*>(to) = kScaled ? sum : sum * factor;
}

// Computes all positions of `to` from the rectangles given by `rows` and `columns`.
template <typename Set, bool kScaled>
inline __attribute__((always_inline)) void SumLoop(
    const std::vector<Range>& rows, const std::vector<Range>& columns, const SpatialView& from_view,
    const float* row_scale, const float* column_scale, const float* from, float* to) {
  const int64_t inner = from_view.inner, width = from_view.width;
  const auto height = static_cast<int64_t>(rows.size()), out = static_cast<int64_t>(columns.size());
  for (int64_t o = 0; o < from_view.outer; ++o, from += from_view.height * width * inner) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < out; ++x, to += inner) {
        const float factor = kScaled ? 1.0f : row_scale[y] * column_scale[x];
        int64_t c = 0;
        for (; c + Set::kLanes <= inner; c += Set::kLanes) {
          SumOne<Set, kScaled>(rows[y], columns[x], width, inner, from + c, row_scale, column_scale,
                               factor, to + c);
        }
        for (; c < inner; ++c) {
          SumOne<One, kScaled>(rows[y], columns[x], width, inner, from + c, row_scale, column_scale,
                               factor, to + c);
        }
      }
    }
  }
}

#define MILLRACE_KERNELS(Set)                                                                  \
  MILLRACE_KERNEL(Set)                                                                         \
  void Forward(Set, const Axis& rows, const Axis& columns, const SpatialView& view,            \
               const float* from, float* to) {                                                 \
    SumLoop<Set, false>(rows.windows, columns.windows, view, rows.scale.data(),                \
                        columns.scale.data(), from, to);                                       \
  }                                                                                            \
  MILLRACE_KERNEL(Set)                                                                         \
  void Backward(Set, const Axis& rows, const Axis& columns, const SpatialView& view,           \
                const float* from, float* to) {                                                \
    SumLoop<Set, true>(rows.over, columns.over, view, rows.scale.data(), columns.scale.data(), \
                       from, to);                                                              \
  }

MILLRACE_KERNELS(Sse)
MILLRACE_KERNELS(Avx2)
MILLRACE_KERNELS(Avx512)
#undef MILLRACE_KERNELS

}  // namespace

void AveragePoolForward(const PoolingShape& shape, const SpatialView& bottom_view,
                        const float* bottom, float* top) {
  const Axis rows = AxisOf(shape, 0), columns = AxisOf(shape, 1);
  VisitSimd(FittingSimd(bottom_view.inner),
            [&](auto set) { Forward(set, rows, columns, bottom_view, bottom, top); });
}

void AveragePoolBackward(const PoolingShape& shape, const SpatialView& top_view,
                         const float* top_diff, float* bottom_diff) {
  const Axis rows = AxisOf(shape, 0), columns = AxisOf(shape, 1);
  VisitSimd(FittingSimd(top_view.inner),
            [&](auto set) { Backward(set, rows, columns, top_view, top_diff, bottom_diff); });
}

}  // namespace millrace::inline nn
