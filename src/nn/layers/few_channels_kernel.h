// The gradient of a convolution's weights and bias where the bottom has few
// channels, as pictures have, for processors with AVX2 but not AVX-512.
//
// oneDNN 2.6's kernel reaches half of the arithmetic peak there: it has too few
// sums under way for each vector of the top's gradient that it loads.
#ifndef MILLRACE_NN_LAYERS_FEW_CHANNELS_KERNEL_H_
#define MILLRACE_NN_LAYERS_FEW_CHANNELS_KERNEL_H_

#include <cstdint>
#include <vector>

#include "device/device.h"

namespace millrace {

// One group, no dilation. Bottom {images, channels, height, width} in plain order,
// top {images, outputs, out_h, out_w} in blocks of 8 channels, `outputs` being a
// multiple of 8; weights {outputs, channels, kernel_h, kernel_w}.
struct FewChannelsShape {
  int64_t images, channels, height, width;
  int64_t outputs, out_h, out_w;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
};

// Whether this takes less time here than oneDNN's convolution primitives.
bool FewChannelsKernelPays(const FewChannelsShape& shape);

// Used by one thread at a time. Needs AVX2.
class FewChannelsGradient {
 public:
  explicit FewChannelsGradient(const FewChannelsShape& shape);

  // Writes all of weight_diff and, unless it is null, of bias_diff {outputs}.
  void Run(const float* bottom, const float* top_diff, float* weight_diff, float* bias_diff);

 private:
  void FillPlanes(const float* image);
  void WriteResult(float* weight_diff, float* bias_diff) const;

  const FewChannelsShape shape_;
  const int64_t height_, width_;  // of an image with its padding, as far as windows reach
  // One image with its padding, and one plane more, of ones: its tap is the bias.
  Buffer planes_;
  std::vector<int64_t> offsets_;  // of the taps in planes_, from a window's corner
  Buffer sums_;                   // {outputs / 16, taps, 16}
};

}  // namespace millrace

#endif  // MILLRACE_NN_LAYERS_FEW_CHANNELS_KERNEL_H_
