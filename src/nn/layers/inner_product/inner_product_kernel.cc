#include "nn/layers/inner_product/inner_product_kernel.h"

#include <algorithm>

#include "base/simd.h"

namespace millrace::inline nn {
namespace {

using Float = Avx2::Float;
constexpr int64_t kLanes = Avx2::kLanes;
constexpr int64_t kColumns = 2 * kLanes;  // per tile: one cache line
constexpr int64_t kRows = 6;              // per tile: 6 x 2 sums fill 12 of 16 registers

// One function for each height of a tile, 1 to kRows.
#define MILLRACE_HEIGHTS(of) \
  { of<1>, of<2>, of<3>, of<4>, of<5>, of<6> }

// Packs {rows, columns} as {rows / kColumns, columns, kColumns}, padded with zeros.
void PackTransposed(int64_t rows, int64_t columns, const float* from, float* to) {
  for (int64_t i = 0; i < rows; i += kColumns, from += kColumns * columns) {
    const int64_t height = std::min(kColumns, rows - i);
    for (int64_t j = 0; j < columns; ++j, to += kColumns) {
      for (int64_t k = 0; k < height; ++k) to[k] = from[k * columns + j];
      std::fill_n(to + height, kColumns - height, 0.0f);
    }
  }
}

// Packs {rows, columns}, whose rows are `distance` apart, as {columns / width, rows, width}; the
// last part may be narrower.
void PackParts(int64_t rows, int64_t columns, int64_t width, const float* from, int64_t distance,
               float* to) {
  for (int64_t j = 0; j < columns; j += width) {
    const int64_t part = std::min(width, columns - j);
    for (int64_t i = 0; i < rows; ++i, to += part) {
      std::copy_n(from + i * distance + j, part, to);
    }
  }
}

// Number of inputs processed together: their part of the bottom stays in an L2 cache beside the
// weights that are read past it.
constexpr int64_t kInputsTogether = 2048;
int64_t PaddedRows(const InnerProductShape& s) {
  return (s.rows + kColumns - 1) / kColumns * kColumns;
}

// sums[i][j] (+)= sum over k < steps of weights[i][k] * bottom[k][j], for kColumns values of j.
template <int kOutputs>
MILLRACE_AVX2 void ForwardTile(const InnerProductShape& s, int64_t steps, const float* bottom,
                               const float* weights, float* sums, bool add) {
  Float sum[kOutputs][2] = {};
  for (int64_t k = 0; k < steps; ++k, bottom += kColumns) {
    const Float b0 = *reinterpret_cast<const Float*>(bottom);
    const Float b1 = *reinterpret_cast<const Float*>(bottom + kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kOutputs; ++i) {
      sum[i][0] += weights[i * s.inputs + k] * b0;
      sum[i][1] += weights[i * s.inputs + k] * b1;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kOutputs; ++i) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half, sums += kLanes) {
      Float& to = *reinterpret_cast<Float*>(sums);
      to = add ? to + sum[i][half] : sum[i][half];
    }
  }
}

// The result is transposed: a tile has the sums of 6 outputs for 16 rows.
void Forward(const InnerProductShape& s, const float* packed, const float* weights, float* sums) {
  static constexpr decltype(&ForwardTile<1>) kTiles[] = MILLRACE_HEIGHTS(ForwardTile);
  for (int64_t k = 0; k < s.inputs; k += kInputsTogether) {
    const int64_t steps = std::min(kInputsTogether, s.inputs - k);
    for (int64_t n = 0; n < s.outputs; n += kRows) {
      for (int64_t m = 0; m < s.rows; m += kColumns) {
        kTiles[std::min(kRows, s.outputs - n) - 1](s, steps, packed + m * s.inputs + k * kColumns,
                                                   weights + n * s.inputs + k,
                                                   sums + m * s.outputs + n * kColumns, k > 0);
      }
    }
  }
}

// Number of inputs processed together in the backward passes: their values, of all rows, stay in an
// L1 cache during the loop over all outputs.
int64_t InputsPassed(const InnerProductShape& s) {
  constexpr int64_t kFloats = 4096;
  return std::max(kFloats / s.rows / kColumns, int64_t{1}) * kColumns;
}

// Number of weight rows to prefetch ahead: twice the rows of a tile.
constexpr int64_t kAhead = 2 * kRows;

// sums[m][j] += sum over o < kOutputs of top_diff[m][o] * weights[o][j], for kColumns values of j.
// The weights stay in registers, so that they are read once and in memory order. In a cache, rows
// whose distances are powers of two would evict each other.
template <int kOutputs>
MILLRACE_INLINE_AVX2 void DataTile(const InnerProductShape& s, const float* top_diff,
                                   const float* weights, float* sums) {
  Float w[kOutputs][2];
#pragma GCC unroll 8
  for (int o = 0; o < kOutputs; ++o) {
    const float* row = weights + o * s.inputs;
    w[o][0] = *reinterpret_cast<const Float*>(row);
    w[o][1] = *reinterpret_cast<const Float*>(row + kLanes);
    __builtin_prefetch(row + kAhead * s.inputs);
  }
  for (int64_t m = 0; m < s.rows; ++m, top_diff += kOutputs, sums += kColumns) {
    Float& to0 = *reinterpret_cast<Float*>(sums);
    Float& to1 = *reinterpret_cast<Float*>(sums + kLanes);
    Float sum0 = to0, sum1 = to1;
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) {
      sum0 += top_diff[o] * w[o][0];
      sum1 += top_diff[o] * w[o][1];
    }
    to0 = sum0;
    to1 = sum1;
  }
}

template <int kOutputs>
MILLRACE_AVX2 void DataTiles(const InnerProductShape& s, int64_t inputs, const float* top_diff,
                             const float* weights, float* sums) {
  for (int64_t k = 0; k < inputs; k += kColumns) {
    DataTile<kOutputs>(s, top_diff, weights + k, sums + k * s.rows);
  }
}

// weight_diff[o][j] = sum over rows m of top_diff[m][o] * bottom[m][j], for kColumns values of j.
template <int kOutputs>
MILLRACE_INLINE_AVX2 void WeightTile(const InnerProductShape& s, const float* top_diff,
                                     const float* bottom, float* weight_diff) {
  Float sum[kOutputs][2] = {};
  // A store waits for its cache line, hence the prefetch; streaming stores take even longer.
#pragma GCC unroll 8
  for (int o = 0; o < kOutputs; ++o) {
    __builtin_prefetch(weight_diff + (o + kAhead) * s.inputs, /*to write*/ 1);
  }
  for (int64_t m = 0; m < s.rows; ++m, top_diff += kOutputs, bottom += kColumns) {
    const Float b0 = *reinterpret_cast<const Float*>(bottom);
    const Float b1 = *reinterpret_cast<const Float*>(bottom + kLanes);
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) {
      sum[o][0] += top_diff[o] * b0;
      sum[o][1] += top_diff[o] * b1;
    }
  }
#pragma GCC unroll 8
  for (int o = 0; o < kOutputs; ++o, weight_diff += s.inputs) {
    *reinterpret_cast<Float*>(weight_diff) = sum[o][0];
    *reinterpret_cast<Float*>(weight_diff + kLanes) = sum[o][1];
  }
}

template <int kOutputs>
MILLRACE_AVX2 void WeightTiles(const InnerProductShape& s, int64_t inputs, const float* top_diff,
                               const float* bottom, float* weight_diff) {
  for (int64_t k = 0; k < inputs; k += kColumns) {
    WeightTile<kOutputs>(s, top_diff, bottom + k * s.rows, weight_diff + k);
  }
}

}  // namespace

bool InnerProductKernelFits(const InnerProductShape& s) {
  return SimdSupported(Simd::kAvx2) && s.inputs % kColumns == 0;
}

bool IsInnerProductKernelWorthwhile(const InnerProductShape& s) {
  // With more rows arithmetic dominates; with fewer oneDNN uses matrix-vector products. Small
  // weights stay in cache and gain nothing.
  const bool large = s.inputs * s.outputs >= int64_t{1} << 20;
  return BestSimd() == Simd::kAvx2 && InnerProductKernelFits(s) && large && s.rows >= 8 &&
         s.rows <= 64;
}

size_t InnerProductScratchBytes(const InnerProductShape& s) {
  const int64_t forward = PaddedRows(s) * (s.inputs + s.outputs);
  const int64_t backward = s.rows * (InputsPassed(s) + s.outputs);
  return std::max(forward, backward) * sizeof(float);
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
  static constexpr decltype(&DataTiles<1>) kTiles[] = MILLRACE_HEIGHTS(DataTiles);
  const int64_t together = InputsPassed(s);
  float *sums = scratch, *packed = scratch + s.rows * together;
  PackParts(s.rows, s.outputs, kRows, top_diff, s.outputs, packed);
  for (int64_t k = 0; k < s.inputs; k += together) {
    const int64_t inputs = std::min(together, s.inputs - k);
    std::fill_n(sums, s.rows * inputs, 0.0f);
    for (int64_t o = 0; o < s.outputs; o += kRows) {
      kTiles[std::min(kRows, s.outputs - o) - 1](s, inputs, packed + o * s.rows,
                                                 weights + o * s.inputs + k, sums);
    }
    for (int64_t i = 0; i < inputs; i += kColumns) {
      for (int64_t m = 0; m < s.rows; ++m) {
        std::copy_n(sums + (i * s.rows + m * kColumns), kColumns,
                    bottom_diff + m * s.inputs + k + i);
      }
    }
  }
}

void InnerProductBackwardWeights(const InnerProductShape& s, const float* bottom,
                                 const float* top_diff, float* weight_diff, float* bias_diff,
                                 float* scratch) {
  static constexpr decltype(&WeightTiles<1>) kTiles[] = MILLRACE_HEIGHTS(WeightTiles);
  const int64_t together = InputsPassed(s);
  float *panels = scratch, *packed = scratch + s.rows * together;
  PackParts(s.rows, s.outputs, kRows, top_diff, s.outputs, packed);
  for (int64_t k = 0; k < s.inputs; k += together) {
    const int64_t inputs = std::min(together, s.inputs - k);
    PackParts(s.rows, inputs, kColumns, bottom + k, s.inputs, panels);
    for (int64_t o = 0; o < s.outputs; o += kRows) {
      kTiles[std::min(kRows, s.outputs - o) - 1](s, inputs, packed + o * s.rows, panels,
                                                 weight_diff + o * s.inputs + k);
    }
  }
  if (!bias_diff) return;
  std::fill_n(bias_diff, s.outputs, 0.0f);
  for (int64_t m = 0; m < s.rows; ++m, top_diff += s.outputs) {
    for (int64_t o = 0; o < s.outputs; ++o) bias_diff[o] += top_diff[o];
  }
}

}  // namespace millrace::inline nn
