#include "nn/layers/convolution/weight_gradient_kernel.h"

#include <algorithm>

#include "base/simd.h"

namespace millrace::inline nn {
namespace {

using Float = Avx2::Float;
constexpr int64_t kBlock = Avx2::kLanes;   // output channels per block
constexpr int64_t kPair = 2 * kBlock;      // outputs that are processed together
constexpr int64_t kTaps = 6;               // per tile: 6 x 2 sums fill 12 of 16 registers
constexpr int64_t kTogetherBytes = 16384;  // of the top's gradient, which stay in an L1 cache
constexpr int64_t kManyChannels = 4 * kTaps;
constexpr int64_t kOnes = -1;  // offset that marks the tap of the bias

// A rectangle of windows: its part of the top's gradient, and the part of the image under its first
// window.
struct Rows {
  const float* image;
  int64_t down, right;  // from a window to the next one, in floats of the image
  const float* top;
  int64_t next_row, next_block;  // distances in the top, in floats
  int64_t rows, width;
};

// sums[tap][output] += sum over the windows of image[offset of tap] * top[output], for kCount taps
// and kBlocks blocks of outputs.
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
  const float* first = r.top;
  for (int64_t y = 0, row = 0; y < r.rows; ++y, row += r.down, first += r.next_row) {
    const float* top = first;
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

// Adds these windows to the sums of these taps, in tiles of nearly equal size.
void AllTaps(const Rows& rows, bool two_blocks, int64_t taps, const int64_t* offsets, float* sums) {
  const int64_t tiles = (taps + kTaps - 1) / kTaps;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = taps * i / tiles, end = taps * (i + 1) / tiles;
    (two_blocks ? TileOf<2> : TileOf<1>)(end - begin, rows, offsets + begin, sums + begin * kPair);
  }
}

// The range of the `count` windows whose tap `at` lies on the `size` pixels of an image, not on its
// padding.
WeightGradient::Range WithTap(int64_t at, int64_t pad, int64_t stride, int64_t size,
                              int64_t count) {
  const int64_t before = std::max<int64_t>(pad - at, 0), within = size + pad - at;
  const int64_t begin = std::min((before + stride - 1) / stride, count);
  const int64_t end = within > 0 ? (within - 1) / stride + 1 : 0;
  return {begin, std::clamp(end, begin, count)};
}

int64_t PairsOf(int64_t outputs) { return (outputs + kPair - 1) / kPair; }

}  // namespace

bool WeightGradientFits(const ConvolutionShape& s) {
  const bool whole_blocks = s.channels / s.groups % s.block == 0;
  return SimdSupported(Simd::kAvx2) && whole_blocks && s.outputs / s.groups % kBlock == 0;
}

bool IsWeightGradientKernelWorthwhile(const ConvolutionShape& s) {
  // A few taps, or one block of outputs, do not keep the arithmetic units busy. With few positions,
  // loading and storing the sums costs more than the kernel saves.
  const bool taps = s.channels / s.groups * s.kernel_h * s.kernel_w > kBlock;
  const bool window = s.kernel_h * s.kernel_w > 1;  // oneDNN treats 1x1 specially
  return BestSimd() == Simd::kAvx2 && WeightGradientFits(s) && taps && window &&
         s.outputs / s.groups >= kPair && s.out_h * s.out_w >= 36;
}

WeightGradient::WeightGradient(const ConvolutionShape& s)
    : shape_(s),
      height_(s.padded_height()),
      width_(s.padded_width()),
      outputs_(s.outputs / s.groups),
      taps_(s.taps() + 1),
      planes_(HostMemory(), (s.channels + s.block) * height_ * width_ * sizeof(float)),
      sums_(HostMemory(), s.groups * PairsOf(outputs_) * taps_ * kPair * sizeof(float)) {
  const int64_t area = height_ * width_;
  std::fill_n(planes_.get<float>(), s.channels * area, 0.0f);  // the padding stays zero
  std::fill_n(planes_.get<float>() + s.channels * area, s.block * area, 1.0f);
  OrderTaps();
}

void WeightGradient::OrderTaps() {
  const ConvolutionShape& s = shape_;
  const int64_t channels = s.channels / s.groups, area = height_ * width_;
  // Few channels would not fill the tiles; multiplying padding as well is faster.
  const bool skip = channels >= kManyChannels;
  struct Tap {
    Windows windows;
    int64_t offset;  // in the planes of the first group
    int64_t place;   // index among a window's weights
  };
  std::vector<Tap> taps;
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t plane = c / s.block * s.block * area + c % s.block;
    for (int64_t y = 0; y < s.kernel_h; ++y) {
      for (int64_t x = 0; x < s.kernel_w; ++x) {
        const Windows windows = skip ? Windows{WithTap(y, s.pad_h, s.stride_h, s.height, s.out_h),
                                               WithTap(x, s.pad_w, s.stride_w, s.width, s.out_w)}
                                     : Windows{{0, s.out_h}, {0, s.out_w}};
        taps.push_back({windows, plane + (y * width_ + x) * s.block, std::ssize(taps)});
      }
    }
  }
  taps.push_back({{{0, s.out_h}, {0, s.out_w}}, kOnes, std::ssize(taps)});
  std::stable_sort(taps.begin(), taps.end(),
                   [](const Tap& a, const Tap& b) { return a.windows < b.windows; });
  order_.resize(taps_);
  for (int64_t t = 0; t < taps_; ++t) {
    order_[taps[t].place] = t;
    if (parts_.empty() || parts_.back().windows != taps[t].windows) {
      parts_.push_back({taps[t].windows, t, t});
    }
    parts_.back().end = t + 1;
  }
  for (int64_t group = 0; group < s.groups; ++group) {
    for (const Tap& tap : taps) {
      offsets_.push_back(tap.offset == kOnes ? s.channels * area
                                             : group * channels * area + tap.offset);
    }
  }
}

void WeightGradient::Run(const float* bottom, const float* top_diff, float* weight_diff,
                         float* bias_diff) {
  const ConvolutionShape& s = shape_;
  const int64_t row_bytes = s.out_w * kPair * static_cast<int64_t>(sizeof(float));
  const int64_t together = std::max<int64_t>(kTogetherBytes / row_bytes, 1);
  std::fill_n(sums_.get<float>(), sums_.bytes() / sizeof(float), 0.0f);
  for (int64_t n = 0; n < s.images; ++n, top_diff += s.outputs * s.out_h * s.out_w) {
    CopyIntoPlanes(s, bottom + n * s.channels * s.height * s.width, planes_.get<float>());
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
  const ConvolutionShape& s = shape_;
  const int64_t area = s.out_h * s.out_w, down = s.stride_h * width_ * s.block;
  const int64_t right = s.stride_w * s.block;
  for (int64_t o = 0; o < outputs_; o += kPair) {
    const float* top = top_diff + (group * outputs_ + o) * area;
    for (const Part& part : parts_) {
      const Range &ys = part.windows.y, &xs = part.windows.x;
      const int64_t begin = std::max(y, ys.begin), end = std::min(y + rows, ys.end);
      if (begin >= end || xs.begin >= xs.end) continue;
      const Rows some{planes_.get<float>() + begin * down + xs.begin * right,
                      down,
                      right,
                      top + (begin * s.out_w + xs.begin) * kBlock,
                      s.out_w * kBlock,
                      area * kBlock,
                      end - begin,
                      xs.end - xs.begin};
      AllTaps(some, o + kBlock < outputs_, part.end - part.begin,
              offsets_.data() + group * taps_ + part.begin, SumsOf(group, o) + part.begin * kPair);
    }
  }
}

void WeightGradient::WriteResult(float* weight_diff, float* bias_diff) const {
  for (int64_t group = 0; group < shape_.groups; ++group) {
    for (int64_t o = 0; o < outputs_; ++o) {
      const float* sum = SumsOf(group, o) + o % kPair;
      for (int64_t t = 0; t + 1 < taps_; ++t) *weight_diff++ = sum[order_[t] * kPair];
      if (bias_diff) *bias_diff++ = sum[order_[taps_ - 1] * kPair];
    }
  }
}

}  // namespace millrace::inline nn
