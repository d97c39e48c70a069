#include "nn/onednn/gemm_convolution.h"

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>

#include "base/simd.h"

namespace millrace::inline nn::onednn {
namespace {

// Images whose patches are processed together and stay in an L2 cache of 512 KiB.
constexpr int64_t kTogether = 2;

template <typename Set>
inline __attribute__((always_inline)) void AddLoop(int64_t count, const float* from, float* to) {
  int64_t i = 0;
  for (; i + Set::kLanes <= count; i += Set::kLanes) {
    *reinterpret_cast<typename Set::Float*>(to + i) +=
        *reinterpret_cast<const typename Set::Float*>(from + i);
  }
  for (; i < count; ++i) to[i] += from[i];
}

// Calls `visit(row of patches, row of the image)` for each row of each window. A row is kernel_w *
// channels values, consecutive in both.
template <typename Patch, typename Image, typename Visit>
inline __attribute__((always_inline)) void ForEachRow(const GemmConvolutionShape& s, int64_t images,
                                                      Patch* patches, Image* image, Visit visit) {
  const int64_t row = s.kernel_w * s.channels;
  for (int64_t n = 0; n < images; ++n, image += s.image()) {
    for (int64_t y = 0; y + s.kernel_h <= s.height; ++y) {
      for (int64_t x = 0; x + s.kernel_w <= s.width; ++x) {
        for (int64_t i = 0; i < s.kernel_h; ++i, patches += row) {
          visit(patches, image + ((y + i) * s.width + x) * s.channels);
        }
      }
    }
  }
}

template <typename Set>
inline __attribute__((always_inline)) void AddFoldedLoop(const GemmConvolutionShape& s,
                                                         int64_t images, const float* patches,
                                                         float* image) {
  const int64_t row = s.kernel_w * s.channels;
  ForEachRow(
      s, images, patches,
      image, [row](const float* patch, float* pixels) __attribute__((always_inline)) {
        AddLoop<Set>(row, patch, pixels);
      });
}

template <typename Set>
inline __attribute__((always_inline)) void SumRowsLoop(int64_t rows, int64_t width,
                                                       const float* from, float* sum) {
  for (int64_t r = 0; r < rows; ++r) AddLoop<Set>(width, from + r * width, sum);
}

#define MILLRACE_KERNELS(Set)                                                              \
  MILLRACE_KERNEL(Set)                                                                     \
  void AddFolded(Set, const GemmConvolutionShape& s, int64_t images, const float* patches, \
                 float* to) {                                                              \
    AddFoldedLoop<Set>(s, images, patches, to);                                            \
  }                                                                                        \
  MILLRACE_KERNEL(Set)                                                                     \
  void SumRows(Set, int64_t rows, int64_t width, const float* from, float* sum) {          \
    SumRowsLoop<Set>(rows, width, from, sum);                                              \
  }
MILLRACE_KERNELS(Sse)
MILLRACE_KERNELS(Avx2)
MILLRACE_KERNELS(Avx512)
#undef MILLRACE_KERNELS

void Unfold(const GemmConvolutionShape& s, int64_t images, const float* image, float* patches) {
  const size_t bytes = s.kernel_w * s.channels * sizeof(float);
  ForEachRow(s, images, patches, image,
             [bytes](float* patch, const float* pixels) { std::memcpy(patch, pixels, bytes); });
}

}  // namespace

bool IsGemmConvolutionWorthwhile(const GemmConvolutionShape& shape) {
  // oneDNN's kernels are made for channels that fill vectors. On LeNet's conv2 they take a third
  // more time, with AVX2 and with AVX-512. Few input channels (a first layer) make the patches too
  // thin for a matrix product.
  return BestSimd() != Simd::kBaseline && shape.channels % 8 != 0 && shape.channels > 8 &&
         shape.kernel_h * shape.kernel_w > 1;
}

GemmConvolutionBackward::GemmConvolutionBackward(const GemmConvolutionShape& shape)
    : shape_(shape),
      patches_(HostMemory(), kTogether * shape.windows() * shape.patch() * sizeof(float)) {}

void GemmConvolutionBackward::Data(const float* top_diff, const float* weights,
                                   float* bottom_diff) {
  const GemmConvolutionShape& s = shape_;
  auto* patches = patches_.get<float>();
  std::memset(bottom_diff, 0, s.images * s.image() * sizeof(float));
  for (int64_t n = 0; n < s.images; n += kTogether) {
    const int64_t images = std::min(kTogether, s.images - n);
    dnnl_sgemm('N', 'N', images * s.windows(), s.patch(), s.outputs, 1,
               top_diff + n * s.windows() * s.outputs, s.outputs, weights, s.patch(), 0, patches,
               s.patch());
    VisitSimd(BestSimd(),
              [&](auto set) { AddFolded(set, s, images, patches, bottom_diff + n * s.image()); });
  }
}

void GemmConvolutionBackward::Weights(const float* bottom, const float* top_diff,
                                      float* weight_diff, float* bias_diff) {
  const GemmConvolutionShape& s = shape_;
  auto* patches = patches_.get<float>();
  for (int64_t n = 0; n < s.images; n += kTogether) {
    const int64_t images = std::min(kTogether, s.images - n);
    Unfold(s, images, bottom + n * s.image(), patches);
    dnnl_sgemm('T', 'N', s.outputs, s.patch(), images * s.windows(), 1,
               top_diff + n * s.windows() * s.outputs, s.outputs, patches, s.patch(), n > 0 ? 1 : 0,
               weight_diff, s.patch());
  }
  if (!bias_diff) return;
  std::fill_n(bias_diff, s.outputs, 0.0f);
  VisitSimd(BestSimd(), [&](auto set) {
    SumRows(set, s.images * s.windows(), s.outputs, top_diff, bias_diff);
  });
}

}  // namespace millrace::inline nn::onednn
