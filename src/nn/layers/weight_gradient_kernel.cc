#include "nn/layers/weight_gradient_kernel.h"

#include <algorithm>

#include "base/simd.h"

namespace millrace {
namespace {

using Float = Avx2::Float;
constexpr int64_t kBlock = Avx2::kLanes;   // channels of the top that lie together
constexpr int64_t kPair = 2 * kBlock;      // outputs that are worked on together
constexpr int64_t kTaps = 6;               // 6 x 2 sums fill 12 of 16 registers
constexpr int64_t kTogetherBytes = 16384;  // of the top's gradient, in an L1 cache

// Some rows of the top's gradient and the part of the image under their first
// window.
struct Rows {
  const float* image;
  int64_t down, right;  // from a window to the next, in floats of the image
  const float* top;
  int64_t next_block;  // from a block of channels to the next, in floats
  int64_t rows, width;
};

// sums[tap][output] += sum over the windows of image[offset of tap] * top[output],
// for kCount taps and kBlocks blocks of outputs.
template <int kCount, int kBlocks>
MILLRACE_INLINE_AVX2 void Tile(const Rows& r, const int64_t* offsets, float* sums) {
  Float sum[kCount][kBlocks];
#pragma GCC unroll 8
  for (int t = 0; t < kCount; ++t) {
#pragma GCC unroll 2
    for (int b = 0; b < kBlocks; ++b) {
      sum[t][b] = *reinterpret_cast<const Float*>(sums + t * kPair + b * kBlock);
    }
  }
  const float* under[kCount];
#pragma GCC unroll 8
  for (int t = 0; t < kCount; ++t) under[t] = r.image + offsets[t];
  const float* top = r.top;
  for (int64_t y = 0, row = 0; y < r.rows; ++y, row += r.down) {
    for (int64_t x = 0, at = row; x < r.width; ++x, at += r.right, top += kBlock) {
      const Float top0 = *reinterpret_cast<const Float*>(top);
      Float top1 = {};
      if constexpr (kBlocks > 1) top1 = *reinterpret_cast<const Float*>(top + r.next_block);
#pragma GCC unroll 8
      for (int t = 0; t < kCount; ++t) {
        sum[t][0] += under[t][at] * top0;
        if constexpr (kBlocks > 1) sum[t][kBlocks - 1] += under[t][at] * top1;
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kCount; ++t) {
#pragma GCC unroll 2
    for (int b = 0; b < kBlocks; ++b) {
      *reinterpret_cast<Float*>(sums + t * kPair + b * kBlock) = sum[t][b];
    }
  }
}

template <int kBlocks>
MILLRACE_AVX2 void TileOf(int64_t count, const Rows& rows, const int64_t* offsets, float* sums) {
  switch (count) {
    case 1:
      return Tile<1, kBlocks>(rows, offsets, sums);
    case 2:
      return Tile<2, kBlocks>(rows, offsets, sums);
    case 3:
      return Tile<3, kBlocks>(rows, offsets, sums);
    case 4:
      return Tile<4, kBlocks>(rows, offsets, sums);
    case 5:
      return Tile<5, kBlocks>(rows, offsets, sums);
    default:
      return Tile<6, kBlocks>(rows, offsets, sums);
  }
}

// All taps of these rows, in tiles of nearly the same size.
void AllTaps(const Rows& rows, bool two_blocks, int64_t taps, const int64_t* offsets, float* sums) {
  const int64_t tiles = (taps + kTaps - 1) / kTaps;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = taps * i / tiles, end = taps * (i + 1) / tiles;
    (two_blocks ? TileOf<2> : TileOf<1>)(end - begin, rows, offsets + begin, sums + begin * kPair);
  }
}

int64_t PairsOf(int64_t outputs) { return (outputs + kPair - 1) / kPair; }

}  // namespace

bool WeightGradientFits(const WeightGradientShape& s) {
  const bool whole_blocks = s.channels / s.groups % s.block == 0;
  return SimdSupported(Simd::kAvx2) && whole_blocks && s.outputs / s.groups % kBlock == 0;
}

bool WeightGradientPays(const WeightGradientShape& s) {
  // Few taps alone do not keep the arithmetic units busy, nor does a lone block of
  // outputs; a few positions do not pay for loading and storing the sums.
  const bool taps = s.channels / s.groups * s.kernel_h * s.kernel_w > kBlock;
  const bool window = s.kernel_h * s.kernel_w > 1;  // oneDNN treats 1x1 specially
  return BestSimd() == Simd::kAvx2 && WeightGradientFits(s) && taps && window &&
         s.outputs / s.groups >= kPair && s.out_h * s.out_w >= 36;
}

WeightGradient::WeightGradient(const WeightGradientShape& s)
    : shape_(s),
      height_((s.out_h - 1) * s.stride_h + s.kernel_h),
      width_((s.out_w - 1) * s.stride_w + s.kernel_w),
      outputs_(s.outputs / s.groups),
      taps_(s.channels / s.groups * s.kernel_h * s.kernel_w + 1),
      planes_(HostMemory(), (s.channels + s.block) * height_ * width_ * sizeof(float)),
      sums_(HostMemory(), s.groups * PairsOf(outputs_) * taps_ * kPair * sizeof(float)) {
  const int64_t area = height_ * width_;
  std::fill_n(planes_.get<float>(), s.channels * area, 0.0f);  // the padding stays
  std::fill_n(planes_.get<float>() + s.channels * area, s.block * area, 1.0f);
  for (int64_t c = 0; c < s.channels; ++c) {
    const int64_t plane = c / s.block * s.block * area + c % s.block;
    for (int64_t y = 0; y < s.kernel_h; ++y) {
      for (int64_t x = 0; x < s.kernel_w; ++x) {
        offsets_.push_back(plane + (y * width_ + x) * s.block);
      }
    }
    const bool last_of_group = (c + 1) % (s.channels / s.groups) == 0;
    if (last_of_group) offsets_.push_back(s.channels * area);
  }
}

void WeightGradient::Run(const float* bottom, const float* top_diff, float* weight_diff,
                         float* bias_diff) {
  const WeightGradientShape& s = shape_;
  const int64_t row_bytes = s.out_w * kPair * static_cast<int64_t>(sizeof(float));
  const int64_t together = std::max<int64_t>(kTogetherBytes / row_bytes, 1);
  std::fill_n(sums_.get<float>(), sums_.bytes() / sizeof(float), 0.0f);
  for (int64_t n = 0; n < s.images; ++n, top_diff += s.outputs * s.out_h * s.out_w) {
    FillPlanes(bottom + n * s.channels * s.height * s.width);
    for (int64_t y = 0; y < s.out_h; y += together) {
      const int64_t rows = std::min(together, s.out_h - y);
      for (int64_t group = 0; group < s.groups; ++group) AddRows(group, y, rows, top_diff);
    }
  }
  WriteResult(weight_diff, bias_diff);
}

float* WeightGradient::SumsOf(int64_t group, int64_t o) const {
  return sums_.get<float>() + (group * PairsOf(outputs_) + o / kPair) * taps_ * kPair;
}

void WeightGradient::AddRows(int64_t group, int64_t y, int64_t rows, const float* top_diff) {
  const WeightGradientShape& s = shape_;
  const int64_t area = s.out_h * s.out_w;
  const float* image = planes_.get<float>() + y * s.stride_h * width_ * s.block;
  for (int64_t o = 0; o < outputs_; o += kPair) {
    const float* top = top_diff + (group * outputs_ + o) * area + y * s.out_w * kBlock;
    const Rows part{
        image,  s.stride_h * width_ * s.block, s.stride_w * s.block, top, area * kBlock, rows,
        s.out_w};
    AllTaps(part, o + kBlock < outputs_, taps_, offsets_.data() + group * taps_, SumsOf(group, o));
  }
}

void WeightGradient::FillPlanes(const float* image) {
  const WeightGradientShape& s = shape_;
  const int64_t rows = std::min(s.height, height_ - s.pad_h);
  const int64_t columns = std::min(s.width, width_ - s.pad_w);
  if (columns <= 0) return;
  const int64_t row = s.width * s.block;
  for (int64_t c = 0; c < s.channels; c += s.block, image += s.height * row) {
    float* plane = planes_.get<float>() + c * height_ * width_;
    for (int64_t y = 0; y < rows; ++y) {
      std::copy_n(image + y * row, columns * s.block,
                  plane + ((y + s.pad_h) * width_ + s.pad_w) * s.block);
    }
  }
}

void WeightGradient::WriteResult(float* weight_diff, float* bias_diff) const {
  for (int64_t group = 0; group < shape_.groups; ++group) {
    for (int64_t o = 0; o < outputs_; ++o) {
      const float* sum = SumsOf(group, o) + o % kPair;
      for (int64_t t = 0; t + 1 < taps_; ++t) *weight_diff++ = sum[t * kPair];
      if (bias_diff) *bias_diff++ = sum[(taps_ - 1) * kPair];
    }
  }
}

}  // namespace millrace
