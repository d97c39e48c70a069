#include "nn/layers/convolution/convolution_kernel.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/simd.h"

namespace millrace::inline nn {

void CopyIntoPlanes(const ConvolutionShape& s, const float* image, float* planes) {
  const int64_t height = s.padded_height(), width = s.padded_width();
  const int64_t rows = std::min(s.height, height - s.pad_h);
  const int64_t columns = std::min(s.width, width - s.pad_w);
  if (columns <= 0) return;
  const int64_t row = s.width * s.block;
  for (int64_t c = 0; c < s.channels; c += s.block, image += s.height * row) {
    float* plane = planes + c * height * width;
    for (int64_t y = 0; y < rows; ++y) {
      std::copy_n(image + y * row, columns * s.block,
                  plane + ((y + s.pad_h) * width + s.pad_w) * s.block);
    }
  }
}

namespace {

using Float = Avx2::Float;
constexpr int64_t kBlock = Avx2::kLanes;   // output channels per block
constexpr int64_t kPair = 2 * kBlock;      // outputs that are processed together
constexpr int64_t kWindows = 6;            // per tile: 6 x 2 sums fill 12 of 16 registers
constexpr int64_t kTogetherBytes = 65536;  // of weights; they share an L2 cache with their planes

using Window = ConvolutionKernel::Window;
using Tap = ConvolutionKernel::Tap;

// The arguments of a tile: some taps of an image's windows, and two blocks of the top.
struct Sums {
  const float* image;
  const Tap* taps;
  int64_t count;
  const float* weights;
  const float* bias;  // initial value of the sums; null: the values in the top
  float* top;
  int64_t next_block;  // distance between blocks of the top, in floats
};

// top[window][output] = sum over taps of image[window + tap] * weights[tap][output]. kFollowing:
// the weights of the taps are consecutive in memory.
template <int kCount, bool kFollowing>
MILLRACE_AVX2 void Tile(const Sums& s, const Window* windows) {
  Float sum[kCount][2];
#pragma GCC unroll 8
  for (int w = 0; w < kCount; ++w) {
    const float* top = s.top + windows[w].top;
#pragma GCC unroll 2
    for (int b = 0; b < 2; ++b) {
      const float* from = s.bias ? s.bias + b * kBlock : top + b * s.next_block;
      sum[w][b] = *reinterpret_cast<const Float*>(from);
    }
  }
  const float* under[kCount];
#pragma GCC unroll 8
  for (int w = 0; w < kCount; ++w) under[w] = s.image + windows[w].image;
  const float* weights = kFollowing ? s.weights + s.taps[0].weights : nullptr;
  for (int64_t t = 0; t < s.count; ++t, weights += kPair) {
    const int64_t at = s.taps[t].image;
    if constexpr (!kFollowing) weights = s.weights + s.taps[t].weights;
    const Float w0 = *reinterpret_cast<const Float*>(weights);
    const Float w1 = *reinterpret_cast<const Float*>(weights + kBlock);
#pragma GCC unroll 8
    for (int w = 0; w < kCount; ++w) {
      sum[w][0] += under[w][at] * w0;
      sum[w][1] += under[w][at] * w1;
    }
  }
#pragma GCC unroll 8
  for (int w = 0; w < kCount; ++w) {
    float* top = s.top + windows[w].top;
#pragma GCC unroll 2
    for (int b = 0; b < 2; ++b) *reinterpret_cast<Float*>(top + b * s.next_block) = sum[w][b];
  }
}

// Computes all windows, in tiles of nearly equal size.
template <bool kFollowing>
void AllWindows(const Sums& sums, const std::vector<Window>& windows) {
  static constexpr decltype(&Tile<1, true>) kTiles[] = {Tile<1, kFollowing>, Tile<2, kFollowing>,
                                                        Tile<3, kFollowing>, Tile<4, kFollowing>,
                                                        Tile<5, kFollowing>, Tile<6, kFollowing>};
  const int64_t count = std::ssize(windows), tiles = (count + kWindows - 1) / kWindows;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = count * i / tiles, end = count * (i + 1) / tiles;
    kTiles[end - begin - 1](sums, windows.data() + begin);
  }
}

// The taps of a window that lie on the `size` pixels of an image, not on its padding.
struct Range {
  int64_t begin, end;
  auto operator<=>(const Range&) const = default;
};
Range TapsOf(int64_t window, int64_t stride, int64_t pad, int64_t size, int64_t kernel) {
  const int64_t begin = std::clamp<int64_t>(pad - window * stride, 0, kernel);
  return {begin, std::clamp<int64_t>(size + pad - window * stride, begin, kernel)};
}

}  // namespace

bool ConvolutionKernelFits(const ConvolutionShape& s) {
  return SimdSupported(Simd::kAvx2) && s.channels / s.groups % s.block == 0 &&
         s.outputs / s.groups % kPair == 0;
}

bool IsConvolutionKernelWorthwhile(const ConvolutionShape& s) {
  // oneDNN loses most where one of three columns remains. It has other kernels for 1x1 windows and
  // for the few channels of an image.
  return BestSimd() == Simd::kAvx2 && ConvolutionKernelFits(s) && s.block == kBlock &&
         s.out_w % 3 == 1 && s.kernel_h * s.kernel_w > 1 && s.out_h * s.out_w >= 36;
}

ConvolutionKernel::ConvolutionKernel(const ConvolutionShape& s)
    : shape_(s),
      height_(s.padded_height()),
      width_(s.padded_width()),
      planes_(HostMemory(), s.channels * height_ * width_ * sizeof(float)) {
  std::fill_n(planes_.get<float>(), s.channels * height_ * width_, 0.0f);  // the padding stays zero
  MakeParts();
}

void ConvolutionKernel::MakeParts() {
  const ConvolutionShape& s = shape_;
  const Range all_y{0, s.kernel_h}, all_x{0, s.kernel_w};
  std::map<std::pair<Range, Range>, Part> parts;
  for (int64_t y = 0; y < s.out_h; ++y) {
    for (int64_t x = 0; x < s.out_w; ++x) {
      const Range on_x = TapsOf(x, s.stride_w, s.pad_w, s.width, s.kernel_w);
      // Corners join the windows of their columns: alone they would not fill tiles.
      const Range on_y =
          on_x == all_x ? TapsOf(y, s.stride_h, s.pad_h, s.height, s.kernel_h) : all_y;
      parts[{on_y, on_x}].windows.push_back(
          {(y * s.stride_h * width_ + x * s.stride_w) * s.block, (y * s.out_w + x) * kBlock});
    }
  }
  for (auto& [on, part] : parts) {
    const auto& [on_y, on_x] = on;
    for (int64_t c = 0; c < s.channels / s.groups; ++c) {
      const int64_t plane = c / s.block * s.block * height_ * width_ + c % s.block;
      for (int64_t y = on_y.begin; y < on_y.end; ++y) {
        for (int64_t x = on_x.begin; x < on_x.end; ++x) {
          part.taps.push_back({plane + (y * width_ + x) * s.block,
                               ((c * s.kernel_h + y) * s.kernel_w + x) * kPair});
        }
      }
    }
    part.all_taps = on_y == all_y && on_x == all_x;
    parts_.push_back(std::move(part));
  }
}

void ConvolutionKernel::Run(const float* bottom, const float* weights, const float* bias,
                            float* top) {
  static constexpr float kNoBias[kPair] = {};
  const ConvolutionShape& s = shape_;
  const int64_t area = s.out_h * s.out_w, outputs = s.outputs / s.groups;
  const int64_t channels = s.channels / s.groups;
  const int64_t channel_bytes = s.kernel_h * s.kernel_w * kPair * sizeof(float);
  const int64_t together = std::max<int64_t>(kTogetherBytes / channel_bytes / s.block, 1) * s.block;
  for (int64_t n = 0; n < s.images; ++n, bottom += s.channels * s.height * s.width) {
    CopyIntoPlanes(s, bottom, planes_.get<float>());
    for (int64_t c = 0; c < channels; c += together) {
      const int64_t some = std::min(together, channels - c);
      for (int64_t o = 0; o < s.outputs; o += kPair) {
        Sums sums{planes_.get<float>() + o / outputs * channels * height_ * width_,
                  nullptr,
                  0,
                  weights + o * s.taps(),
                  c > 0  ? nullptr
                  : bias ? bias + o
                         : kNoBias,
                  top + (n * s.outputs + o) * area,
                  area * kBlock};
        for (const Part& part : parts_) {
          const int64_t taps = std::ssize(part.taps) / channels;
          sums.taps = part.taps.data() + c * taps;
          sums.count = some * taps;
          (part.all_taps ? AllWindows<true> : AllWindows<false>)(sums, part.windows);
        }
      }
    }
  }
}

}  // namespace millrace::inline nn
