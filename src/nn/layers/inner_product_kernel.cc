#include "nn/layers/inner_product_kernel.h"

#include <algorithm>

#include "base/simd.h"

namespace millrace {
namespace {

using Float = Avx2::Float;
constexpr int64_t kLanes = Avx2::kLanes;
constexpr int64_t kColumns = 2 * kLanes;  // of a tile: a cache line
constexpr int64_t kRows = 6;              // 6 x 2 sums fill 12 of 16 registers

// One tile: c[i][j] (+)= sum over s < steps of a[i][s] * b[s][j], for kColumns j.
// Element (i, s) of a lies at a[i * a_row + s * a_step].
struct Product {
  const float* a;
  int64_t a_row, a_step;
  const float* b;
  int64_t b_step;
  int64_t steps;
  float* c;
  int64_t c_row;
  bool add;
};

// kCopy: leaves b's rows one after the other in `copy`, and prefetches b `ahead`
// of where it is.
template <int kHeight, bool kCopy>
MILLRACE_INLINE_AVX2 void Tile(const Product& p, float* copy = nullptr, int64_t ahead = 0) {
  Float sum[kHeight][2] = {};
  const float *a = p.a, *b = p.b;
  for (int64_t s = 0; s < p.steps; ++s, a += p.a_step, b += p.b_step) {
    const Float b0 = *reinterpret_cast<const Float*>(b);
    const Float b1 = *reinterpret_cast<const Float*>(b + kLanes);
    if constexpr (kCopy) {
      __builtin_prefetch(b + ahead);
      *reinterpret_cast<Float*>(copy + s * kColumns) = b0;
      *reinterpret_cast<Float*>(copy + s * kColumns + kLanes) = b1;
    }
#pragma GCC unroll 8
    for (int i = 0; i < kHeight; ++i) {
      sum[i][0] += a[i * p.a_row] * b0;
      sum[i][1] += a[i * p.a_row] * b1;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kHeight; ++i) {
    float* c = p.c + i * p.c_row;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half, c += kLanes) {
      Float& to = *reinterpret_cast<Float*>(c);
      to = p.add ? to + sum[i][half] : sum[i][half];
    }
  }
}

// The same with 1 to kRows rows.
template <bool kCopy>
MILLRACE_INLINE_AVX2 void TileOf(int64_t height, const Product& p, float* copy = nullptr,
                                 int64_t ahead = 0) {
  switch (height) {
    case 1:
      return Tile<1, kCopy>(p, copy, ahead);
    case 2:
      return Tile<2, kCopy>(p, copy, ahead);
    case 3:
      return Tile<3, kCopy>(p, copy, ahead);
    case 4:
      return Tile<4, kCopy>(p, copy, ahead);
    case 5:
      return Tile<5, kCopy>(p, copy, ahead);
    default:
      return Tile<6, kCopy>(p, copy, ahead);
  }
}

// {rows / kColumns, columns, kColumns} from {rows, columns}, filled up with zeros.
void PackTransposed(int64_t rows, int64_t columns, const float* from, float* to) {
  for (int64_t i = 0; i < rows; i += kColumns, from += kColumns * columns) {
    const int64_t height = std::min(kColumns, rows - i);
    for (int64_t j = 0; j < columns; ++j, to += kColumns) {
      for (int64_t k = 0; k < height; ++k) to[k] = from[k * columns + j];
      std::fill_n(to + height, kColumns - height, 0.0f);
    }
  }
}

// Parts of the bottom of so many inputs stay in an L2 cache beside the weights
// that pass by.
constexpr int64_t kInputsTogether = 2048;
// As many outputs share one pass over the sums of the bottom's gradient.
constexpr int64_t kOutputsTogether = 64;
int64_t PaddedRows(const InnerProductShape& s) {
  return (s.rows + kColumns - 1) / kColumns * kColumns;
}

// Transposed: the sums of a tile are those of 6 outputs for 16 rows.
MILLRACE_AVX2 void Forward(const InnerProductShape& s, const float* packed, const float* weights,
                           float* sums) {
  for (int64_t k = 0; k < s.inputs; k += kInputsTogether) {
    const int64_t steps = std::min(kInputsTogether, s.inputs - k);
    for (int64_t n = 0; n < s.outputs; n += kRows) {
      for (int64_t m = 0; m < s.rows; m += kColumns) {
        TileOf<false>(
            std::min(kRows, s.outputs - n),
            {weights + n * s.inputs + k, s.inputs, 1, packed + m * s.inputs + k * kColumns,
             kColumns, steps, sums + m * s.outputs + n * kColumns, kColumns, k > 0});
      }
    }
  }
}

MILLRACE_AVX2 void BackwardData(const InnerProductShape& s, const float* top_diff,
                                const float* weights, float* bottom_diff, float* copy) {
  constexpr int64_t kAhead = kColumns;
  for (int64_t n = 0; n < s.outputs; n += kOutputsTogether) {
    const int64_t steps = std::min(kOutputsTogether, s.outputs - n);
    for (int64_t k = 0; k < s.inputs; k += kColumns) {
      for (int64_t m = 0; m < s.rows; m += kRows) {
        const int64_t height = std::min(kRows, s.rows - m);
        const float* a = top_diff + m * s.outputs + n;
        float* c = bottom_diff + m * s.inputs + k;
        if (m == 0) {
          TileOf<true>(
              height,
              {a, s.outputs, 1, weights + n * s.inputs + k, s.inputs, steps, c, s.inputs, n > 0},
              copy, kAhead);
        } else {
          TileOf<false>(height, {a, s.outputs, 1, copy, kColumns, steps, c, s.inputs, n > 0});
        }
      }
    }
  }
}

}  // namespace

bool InnerProductKernelFits(const InnerProductShape& s) {
  return SimdSupported(Simd::kAvx2) && s.inputs % kColumns == 0;
}

bool InnerProductKernelPays(const InnerProductShape& s) {
  // With more rows arithmetic counts, with fewer oneDNN multiplies by a vector.
  // Small weights stay in cache, and gain nothing.
  const bool large = s.inputs * s.outputs >= int64_t{1} << 20;
  return BestSimd() == Simd::kAvx2 && InnerProductKernelFits(s) && large && s.rows >= 8 &&
         s.rows <= 64;
}

size_t InnerProductScratchBytes(const InnerProductShape& s) {
  const int64_t copy = kOutputsTogether * kColumns;
  return std::max(PaddedRows(s) * (s.inputs + s.outputs), copy) * sizeof(float);
}

void InnerProductForward(const InnerProductShape& s, const float* bottom, const float* weights,
                         const float* bias, float* top, float* scratch) {
  float* sums = scratch + PaddedRows(s) * s.inputs;
  PackTransposed(s.rows, s.inputs, bottom, scratch);
  Forward(s, scratch, weights, sums);
  for (int64_t m = 0; m < s.rows; ++m, top += s.outputs) {
    const float* sum = sums + m / kColumns * kColumns * s.outputs + m % kColumns;
    for (int64_t n = 0; n < s.outputs; ++n) top[n] = sum[n * kColumns] + (bias ? bias[n] : 0.0f);
  }
}

void InnerProductBackwardData(const InnerProductShape& s, const float* top_diff,
                              const float* weights, float* bottom_diff, float* scratch) {
  BackwardData(s, top_diff, weights, bottom_diff, scratch);
}

}  // namespace millrace
