#include "nn/layers/max_pool_kernel.h"

#include <algorithm>

#include "base/simd.h"

namespace millrace {
namespace {

struct Range {
  int64_t begin, end;
};

// The part of window `index` of one axis that lies in the bottom.
inline Range WindowOf(const PoolingGeometry& g, int axis, int64_t index, int64_t size) {
  const int64_t begin = index * g.stride[axis] - g.pad[axis];
  return {std::max<int64_t>(begin, 0), std::min(begin + g.kernel[axis], size)};
}

// The windows of one axis that hold bottom position `position`.
inline Range WindowsOver(const PoolingGeometry& g, int axis, int64_t position, int64_t windows) {
  const int64_t shifted = position + g.pad[axis];
  const int64_t first =
      shifted < g.kernel[axis] ? 0 : (shifted - g.kernel[axis]) / g.stride[axis] + 1;
  return {first, std::min(shifted / g.stride[axis] + 1, windows)};
}

// One top position, kLanes channels at a time; the last ones one by one.
template <typename Set>
inline __attribute__((always_inline)) void ForwardWindow(const PoolingGeometry& g,
                                                         const SpatialView& bottom_view,
                                                         int64_t oy, int64_t ox,
                                                         const float* plane, float* top,
                                                         int32_t* which) {
  using Float = typename Set::Float;
  using Int = typename Set::Int;
  const int64_t inner = bottom_view.inner;
  const Range rows = WindowOf(g, 0, oy, bottom_view.height);
  const Range columns = WindowOf(g, 1, ox, bottom_view.width);
  const int64_t row0 = oy * g.stride[0] - g.pad[0], column0 = ox * g.stride[1] - g.pad[1];
  const auto position = [&](int64_t y, int64_t x) {
    return static_cast<int32_t>((y - row0) * g.kernel[1] + (x - column0));
  };
  const auto at = [&](int64_t y, int64_t x) { return plane + (y * bottom_view.width + x) * inner; };
  int64_t c = 0;
  for (; c + Set::kLanes <= inner; c += Set::kLanes) {
    Float best = *reinterpret_cast<const Float*>(at(rows.begin, columns.begin) + c);
    Int best_at = Int{} + position(rows.begin, columns.begin);
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      for (int64_t x = columns.begin; x < columns.end; ++x) {
        const Float value = *reinterpret_cast<const Float*>(at(y, x) + c);
        const auto larger = value > best;
        best = larger ? value : best;
        best_at = larger ? Int{} + position(y, x) : best_at;
      }
    }
    *reinterpret_cast<Float*>(top + c) = best;
    *reinterpret_cast<Int*>(which + c) = best_at;
  }
  for (; c < inner; ++c) {
    float best = at(rows.begin, columns.begin)[c];
    int32_t best_at = position(rows.begin, columns.begin);
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
inline __attribute__((always_inline)) void ForwardLoop(const PoolingGeometry& g,
                                                       const SpatialView& bottom_view,
                                                       const SpatialView& top_view,
                                                       const float* bottom, float* top,
                                                       int32_t* which) {
  const int64_t plane = bottom_view.height * bottom_view.width * bottom_view.inner;
  for (int64_t o = 0; o < top_view.outer; ++o, bottom += plane) {
    for (int64_t oy = 0; oy < top_view.height; ++oy) {
      for (int64_t ox = 0; ox < top_view.width; ++ox) {
        ForwardWindow<Set>(g, bottom_view, oy, ox, bottom, top, which);
        top += top_view.inner;
        which += top_view.inner;
      }
    }
  }
}

// One bottom position: gathers from the windows over it.
template <typename Set>
inline __attribute__((always_inline)) void BackwardPosition(const PoolingGeometry& g,
                                                            const SpatialView& top_view, int64_t y,
                                                            int64_t x, const float* top_diff,
                                                            const int32_t* which, float* diff) {
  using Float = typename Set::Float;
  using Int = typename Set::Int;
  const int64_t inner = top_view.inner;
  const Range rows = WindowsOver(g, 0, y, top_view.height);
  const Range columns = WindowsOver(g, 1, x, top_view.width);
  const auto offset = [&](int64_t oy, int64_t ox) { return (oy * top_view.width + ox) * inner; };
  const auto position = [&](int64_t oy, int64_t ox) {
    return static_cast<int32_t>((y + g.pad[0] - oy * g.stride[0]) * g.kernel[1] +
                                (x + g.pad[1] - ox * g.stride[1]));
  };
  int64_t c = 0;
  for (; c + Set::kLanes <= inner; c += Set::kLanes) {
    Float sum = {};
    for (int64_t oy = rows.begin; oy < rows.end; ++oy) {
      for (int64_t ox = columns.begin; ox < columns.end; ++ox) {
        const int64_t from = offset(oy, ox) + c;
        const Int chosen = *reinterpret_cast<const Int*>(which + from);
        sum += chosen == position(oy, ox) ? *reinterpret_cast<const Float*>(top_diff + from)
                                          : Float{};
      }
    }
    *reinterpret_cast<Float*>(diff + c) = sum;
  }
  for (; c < inner; ++c) {
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
inline __attribute__((always_inline)) void BackwardLoop(const PoolingGeometry& g,
                                                        const SpatialView& bottom_view,
                                                        const SpatialView& top_view,
                                                        const float* top_diff,
                                                        const int32_t* which, float* diff) {
  const int64_t plane = top_view.height * top_view.width * top_view.inner;
  for (int64_t o = 0; o < top_view.outer; ++o, top_diff += plane, which += plane) {
    for (int64_t y = 0; y < bottom_view.height; ++y) {
      for (int64_t x = 0; x < bottom_view.width; ++x, diff += bottom_view.inner) {
        BackwardPosition<Set>(g, top_view, y, x, top_diff, which, diff);
      }
    }
  }
}

#define MILLRACE_KERNELS(Set)                                                                   \
  __attribute__((noinline, target(MILLRACE_TARGET_##Set))) void Forward##Set(                   \
      const PoolingGeometry& g, const SpatialView& bottom_view, const SpatialView& top_view,    \
      const float* bottom, float* top, int32_t* which) {                                        \
    ForwardLoop<Set>(g, bottom_view, top_view, bottom, top, which);                             \
  }                                                                                             \
  __attribute__((noinline, target(MILLRACE_TARGET_##Set))) void Backward##Set(                  \
      const PoolingGeometry& g, const SpatialView& bottom_view, const SpatialView& top_view,    \
      const float* top_diff, const int32_t* which, float* diff) {                               \
    BackwardLoop<Set>(g, bottom_view, top_view, top_diff, which, diff);                         \
  }

MILLRACE_KERNELS(Sse)
MILLRACE_KERNELS(Avx2)
MILLRACE_KERNELS(Avx512)
#undef MILLRACE_KERNELS

// The widest set that is not wider than a position's channels.
Simd Fitting(int64_t inner) {
  const Simd best = BestSimd();
  return best == Simd::kAvx512 && inner < Avx512::kLanes ? Simd::kAvx2 : best;
}

}  // namespace

void MaxPoolForward(const PoolingGeometry& g, const SpatialView& bottom_view,
                    const SpatialView& top_view, const float* bottom, float* top, int32_t* which) {
  switch (Fitting(top_view.inner)) {
    case Simd::kAvx512:
      return ForwardAvx512(g, bottom_view, top_view, bottom, top, which);
    case Simd::kAvx2:
      return ForwardAvx2(g, bottom_view, top_view, bottom, top, which);
    case Simd::kBaseline:
      return ForwardSse(g, bottom_view, top_view, bottom, top, which);
  }
}

void MaxPoolBackward(const PoolingGeometry& g, const SpatialView& bottom_view,
                     const SpatialView& top_view, const float* top_diff, const int32_t* which,
                     float* diff) {
  switch (Fitting(top_view.inner)) {
    case Simd::kAvx512:
      return BackwardAvx512(g, bottom_view, top_view, top_diff, which, diff);
    case Simd::kAvx2:
      return BackwardAvx2(g, bottom_view, top_view, top_diff, which, diff);
    case Simd::kBaseline:
      return BackwardSse(g, bottom_view, top_view, top_diff, which, diff);
  }
}

}  // namespace millrace
