#include "nn/layers/few_channels_kernel.h"

#include <algorithm>

#include "base/simd.h"

#define MILLRACE_AVX2 __attribute__((target(MILLRACE_TARGET_Avx2)))
#define MILLRACE_INLINE_AVX2 inline __attribute__((always_inline, target(MILLRACE_TARGET_Avx2)))

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
  int64_t image_row, stride_h, stride_w;
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
  for (int64_t y = 0; y < r.rows; ++y) {
    const float* under[kCount];
    const float* image = r.image + y * r.stride_h * r.image_row;
#pragma GCC unroll 8
    for (int t = 0; t < kCount; ++t) under[t] = image + offsets[t];
    const float* top = r.top + y * r.width * kBlock;
    for (int64_t x = 0, at = 0; x < r.width; ++x, at += r.stride_w, top += kBlock) {
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
void AllTaps(const Rows& rows, bool two_blocks, const std::vector<int64_t>& offsets, float* sums) {
  const auto taps = static_cast<int64_t>(offsets.size());
  const int64_t tiles = (taps + kTaps - 1) / kTaps;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = taps * i / tiles, end = taps * (i + 1) / tiles;
    (two_blocks ? TileOf<2> : TileOf<1>)(end - begin, rows, offsets.data() + begin,
                                         sums + begin * kPair);
  }
}

}  // namespace

bool FewChannelsKernelPays(const FewChannelsShape& s) {
  // A few taps alone would not keep the arithmetic units busy.
  return BestSimd() == Simd::kAvx2 && s.channels < 8 && s.outputs % kBlock == 0 &&
         s.channels * s.kernel_h * s.kernel_w > 8;
}

FewChannelsGradient::FewChannelsGradient(const FewChannelsShape& s)
    : shape_(s),
      height_((s.out_h - 1) * s.stride_h + s.kernel_h),
      width_((s.out_w - 1) * s.stride_w + s.kernel_w),
      planes_(HostMemory(), (s.channels + 1) * height_ * width_ * sizeof(float)),
      sums_(HostMemory(), (s.outputs + kPair - 1) / kPair * kPair *
                              (s.channels * s.kernel_h * s.kernel_w + 1) * sizeof(float)) {
  const int64_t plane = height_ * width_;
  std::fill_n(planes_.get<float>(), s.channels * plane, 0.0f);  // the padding stays
  std::fill_n(planes_.get<float>() + s.channels * plane, plane, 1.0f);
  for (int64_t c = 0; c < s.channels; ++c) {
    for (int64_t y = 0; y < s.kernel_h; ++y) {
      for (int64_t x = 0; x < s.kernel_w; ++x) offsets_.push_back(c * plane + y * width_ + x);
    }
  }
  offsets_.push_back(s.channels * plane);
}

void FewChannelsGradient::Run(const float* bottom, const float* top_diff, float* weight_diff,
                              float* bias_diff) {
  const FewChannelsShape& s = shape_;
  const auto taps = static_cast<int64_t>(offsets_.size());
  const int64_t block = s.out_h * s.out_w * kBlock;
  const int64_t row_bytes = s.out_w * kPair * static_cast<int64_t>(sizeof(float));
  const int64_t together = std::max<int64_t>(kTogetherBytes / row_bytes, 1);
  std::fill_n(sums_.get<float>(), sums_.bytes() / sizeof(float), 0.0f);
  for (int64_t n = 0; n < s.images; ++n, top_diff += s.outputs / kBlock * block) {
    FillPlanes(bottom + n * s.channels * s.height * s.width);
    for (int64_t y = 0; y < s.out_h; y += together) {
      const float* image = planes_.get<float>() + y * s.stride_h * width_;
      for (int64_t o = 0; o < s.outputs; o += kPair) {
        const Rows rows{image,
                        width_,
                        s.stride_h,
                        s.stride_w,
                        top_diff + o / kBlock * block + y * s.out_w * kBlock,
                        block,
                        std::min(together, s.out_h - y),
                        s.out_w};
        AllTaps(rows, o + kBlock < s.outputs, offsets_, sums_.get<float>() + o * taps);
      }
    }
  }
  WriteResult(weight_diff, bias_diff);
}

void FewChannelsGradient::FillPlanes(const float* image) {
  const FewChannelsShape& s = shape_;
  const int64_t rows = std::min(s.height, height_ - s.pad_h);
  const int64_t columns = std::min(s.width, width_ - s.pad_w);
  for (int64_t c = 0; c < s.channels; ++c, image += s.height * s.width) {
    float* plane = planes_.get<float>() + (c * height_ + s.pad_h) * width_ + s.pad_w;
    for (int64_t y = 0; y < rows && columns > 0; ++y) {
      std::copy_n(image + y * s.width, columns, plane + y * width_);
    }
  }
}

void FewChannelsGradient::WriteResult(float* weight_diff, float* bias_diff) const {
  const auto taps = static_cast<int64_t>(offsets_.size());
  for (int64_t o = 0; o < shape_.outputs; ++o) {
    const float* sum = sums_.get<float>() + o / kPair * kPair * taps + o % kPair;
    for (int64_t t = 0; t + 1 < taps; ++t) *weight_diff++ = sum[t * kPair];
    if (bias_diff) bias_diff[o] = sum[(taps - 1) * kPair];
  }
}

}  // namespace millrace
