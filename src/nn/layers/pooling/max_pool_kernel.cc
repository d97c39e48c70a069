#include "nn/layers/pooling/host_pooling.h"

#include <algorithm>
#include <cfloat>
#include <vector>

#include "base/simd.h"

namespace millrace::inline nn {
namespace {

// The loops process kLanes channels at a time. The last vector may overlap the one before. With
// fewer than kLanes channels, they process one channel at a time.

// Replaces `best` with `value`, of window position `position`, where `value` is larger.
template <typename Set>
inline __attribute__((always_inline)) void TakeLarger(typename Set::Float value, int32_t position,
                                                      typename Set::Float* best,
                                                      typename Set::Int* best_at) {
  const auto larger = value > *best;
  *best = larger ? value : *best;
  *best_at = larger ? typename Set::Int{} + position : *best_at;
}

// Computes a complete kSide x kSide window that starts at `corner`: no bounds to compute.
template <typename Set, int kSide>
inline __attribute__((always_inline)) void ForwardSquare(int64_t row, int64_t inner,
                                                         const float* corner, float* top,
                                                         int32_t* which) {
  using Float = typename Set::Float;
  using Int = typename Set::Int;
  for (int64_t next = 0; next < inner; next += Set::kLanes) {
    const int64_t c = std::min(next, inner - Set::kLanes);
    Float best = *reinterpret_cast<const Float*>(corner + c);
    Int best_at = {};
#pragma GCC unroll 3
    for (int y = 0; y < kSide; ++y) {
#pragma GCC unroll 3
      for (int x = 0; x < kSide; ++x) {
        if (y + x == 0) continue;
        TakeLarger<Set>(*reinterpret_cast<const Float*>(corner + y * row + x * inner + c),
                        y * kSide + x, &best, &best_at);
      }
    }
    *reinterpret_cast<Float*>(top + c) = best;
    *reinterpret_cast<Int*>(which + c) = best_at;
  }
}

// Computes one top position. `first` is the window position of its first bottom value.
template <typename Set>
inline __attribute__((always_inline)) void ForwardWindow(const PoolingShape& g,
                                                         const SpatialView& bottom_view, Range rows,
                                                         Range columns, int32_t first,
                                                         const float* plane, float* top,
                                                         int32_t* which) {
  using Float = typename Set::Float;
  using Int = typename Set::Int;
  const int64_t inner = bottom_view.inner;
  const auto position = [&](int64_t y, int64_t x) {
    return static_cast<int32_t>(first + (y - rows.begin) * g.kernel[1] + (x - columns.begin));
  };
  const auto at = [&](int64_t y, int64_t x) { return plane + (y * bottom_view.width + x) * inner; };
  int64_t next = 0;
  for (; inner >= Set::kLanes && next < inner; next += Set::kLanes) {
    const int64_t c = std::min(next, inner - Set::kLanes);
    Float best = *reinterpret_cast<const Float*>(at(rows.begin, columns.begin) + c);
    Int best_at = Int{} + first;
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      for (int64_t x = columns.begin; x < columns.end; ++x) {
        TakeLarger<Set>(*reinterpret_cast<const Float*>(at(y, x) + c), position(y, x), &best,
                        &best_at);
      }
    }
    *reinterpret_cast<Float*>(top + c) = best;
    *reinterpret_cast<Int*>(which + c) = best_at;
  }
  for (int64_t c = next; c < inner; ++c) {
    float best = at(rows.begin, columns.begin)[c];
    int32_t best_at = first;
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      for (int64_t x = columns.begin; x < columns.end; ++x) {
        if (at(y, x)[c] <= best || at(y, x)[c] != at(y, x)[c]) continue;
        best = at(y, x)[c];
        best_at = position(y, x);
      }
    }
    top[c] = best;
    which[c] = best_at;
  }
}

template <typename Set>
inline __attribute__((always_inline)) void ForwardLoop(const PoolingShape& g,
                                                       const SpatialView& bottom_view,
                                                       const SpatialView& top_view,
                                                       const float* bottom, float* top,
                                                       int32_t* which) {
  const int64_t row = bottom_view.width * bottom_view.inner;
  const int64_t plane = bottom_view.height * row;
  const bool square = g.kernel[0] == g.kernel[1] && bottom_view.inner >= Set::kLanes;
  const int64_t side = square ? g.kernel[0] : 0;
  for (int64_t o = 0; o < top_view.outer; ++o, bottom += plane) {
    for (int64_t oy = 0; oy < top_view.height; ++oy) {
      const Range rows = WindowOf(g, 0, oy);
      const bool whole_rows = rows.end - rows.begin == g.kernel[0];
      for (int64_t ox = 0; ox < top_view.width; ++ox) {
        const Range columns = WindowOf(g, 1, ox);
        if (rows.begin >= rows.end || columns.begin >= columns.end) {
          std::fill_n(top, top_view.inner, -FLT_MAX);
          std::fill_n(which, top_view.inner, -1);
          top += top_view.inner;
          which += top_view.inner;
          continue;
        }
        const float* corner =
            bottom + (rows.begin * bottom_view.width + columns.begin) * bottom_view.inner;
        const bool whole = whole_rows && columns.end - columns.begin == g.kernel[1];
        if (whole && side == 3) {
          ForwardSquare<Set, 3>(row, bottom_view.inner, corner, top, which);
        } else if (whole && side == 2) {
          ForwardSquare<Set, 2>(row, bottom_view.inner, corner, top, which);
        } else {
          const int64_t first = (rows.begin - oy * g.stride[0] + g.pad[0]) * g.kernel[1] +
                                columns.begin - ox * g.stride[1] + g.pad[1];
          ForwardWindow<Set>(g, bottom_view, rows, columns, static_cast<int32_t>(first), bottom,
                             top, which);
        }
        top += top_view.inner;
        which += top_view.inner;
      }
    }
  }
}

// Computes one bottom position: sums over the windows that contain it. `first` is its window
// position in the first of them.
template <typename Set>
inline __attribute__((always_inline)) void BackwardPosition(const PoolingShape& g,
                                                            const SpatialView& top_view, Range rows,
                                                            Range columns, int32_t first,
                                                            const float* top_diff,
                                                            const int32_t* which, float* diff) {
  using Float = typename Set::Float;
  using Int = typename Set::Int;
  const int64_t inner = top_view.inner;
  const auto offset = [&](int64_t oy, int64_t ox) { return (oy * top_view.width + ox) * inner; };
  const auto position = [&](int64_t oy, int64_t ox) {
    return static_cast<int32_t>(first - (oy - rows.begin) * g.stride[0] * g.kernel[1] -
                                (ox - columns.begin) * g.stride[1]);
  };
  int64_t next = 0;
  for (; inner >= Set::kLanes && next < inner; next += Set::kLanes) {
    const int64_t c = std::min(next, inner - Set::kLanes);
    Float sum = {};
    for (int64_t oy = rows.begin; oy < rows.end; ++oy) {
      for (int64_t ox = columns.begin; ox < columns.end; ++ox) {
        const int64_t from = offset(oy, ox) + c;
        const Int chosen = *reinterpret_cast<const Int*>(which + from);
        sum +=
            chosen == position(oy, ox) ? *reinterpret_cast<const Float*>(top_diff + from) : Float{};
      }
    }
    *reinterpret_cast<Float*>(diff + c) = sum;
  }
  for (int64_t c = next; c < inner; ++c) {
    float sum = 0;
    for (int64_t oy = rows.begin; oy < rows.end; ++oy) {
      for (int64_t ox = columns.begin; ox < columns.end; ++ox) {
        const int64_t from = offset(oy, ox) + c;
        if (which[from] == position(oy, ox)) sum += top_diff[from];
      }
    }
    diff[c] = sum;
  }
}

template <typename Set>
inline __attribute__((always_inline)) void BackwardLoop(const PoolingShape& g,
                                                        const SpatialView& bottom_view,
                                                        const SpatialView& top_view,
                                                        const Range* columns, const float* top_diff,
                                                        const int32_t* which, float* diff) {
  const int64_t plane = top_view.height * top_view.width * top_view.inner;
  for (int64_t o = 0; o < top_view.outer; ++o, top_diff += plane, which += plane) {
    for (int64_t y = 0; y < bottom_view.height; ++y) {
      const Range rows = WindowsOver(g, 0, y);
      const int64_t row = (y + g.pad[0] - rows.begin * g.stride[0]) * g.kernel[1];
      for (int64_t x = 0; x < bottom_view.width; ++x, diff += bottom_view.inner) {
        const int64_t column = x + g.pad[1] - columns[x].begin * g.stride[1];
        BackwardPosition<Set>(g, top_view, rows, columns[x], static_cast<int32_t>(row + column),
                              top_diff, which, diff);
      }
    }
  }
}

#define MILLRACE_KERNELS(Set)                                                                  \
  MILLRACE_KERNEL(Set)                                                                         \
  void Forward(Set, const PoolingShape& g, const SpatialView& bottom_view,                     \
               const SpatialView& top_view, const float* bottom, float* top, int32_t* which) { \
    ForwardLoop<Set>(g, bottom_view, top_view, bottom, top, which);                            \
  }                                                                                            \
  MILLRACE_KERNEL(Set)                                                                         \
  void Backward(Set, const PoolingShape& g, const SpatialView& bottom_view,                    \
                const SpatialView& top_view, const Range* columns, const float* top_diff,      \
                const int32_t* which, float* diff) {                                           \
    BackwardLoop<Set>(g, bottom_view, top_view, columns, top_diff, which, diff);               \
  }

MILLRACE_KERNELS(Sse)
MILLRACE_KERNELS(Avx2)
MILLRACE_KERNELS(Avx512)
#undef MILLRACE_KERNELS

}  // namespace

void HostMaxPoolForward(const PoolingShape& g, const SpatialView& bottom_view,
                        const SpatialView& top_view, const float* bottom, float* top,
                        int32_t* which) {
  VisitSimd(FittingSimd(top_view.inner),
            [&](auto set) { Forward(set, g, bottom_view, top_view, bottom, top, which); });
}

void HostMaxPoolBackward(const PoolingShape& g, const SpatialView& bottom_view,
                         const SpatialView& top_view, const float* top_diff, const int32_t* which,
                         float* diff) {
  std::vector<Range> columns;  // computed once: a division takes longer than a position
  for (int64_t x = 0; x < bottom_view.width; ++x) {
    columns.push_back(WindowsOver(g, 1, x));
  }
  VisitSimd(FittingSimd(top_view.inner), [&](auto set) {
    Backward(set, g, bottom_view, top_view, columns.data(), top_diff, which, diff);
  });
}

}  // namespace millrace::inline nn
