// Forward passes of convolutions whose blobs hold channels innermost, on the host.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_KERNEL_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_KERNEL_H_

#include <cstdint>
#include <vector>

#include "millrace/device.h"

namespace millrace::inline nn {

// The shape of a convolution, as this project's own kernels need it.

// No dilation. Bottom {images, channels, height, width} in plain order (`block` 1) or in blocks of
// 8 channels (`block` 8). Top {images, outputs, out_h, out_w} in blocks of 8 channels. Weights
// {outputs, channels / groups, kernel_h, kernel_w}.
struct ConvolutionShape {
  int64_t images, groups, block, channels, height, width;
  int64_t outputs, out_h, out_w;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;

  // The size of an image including the padding that windows reach.
  int64_t padded_height() const { return (out_h - 1) * stride_h + kernel_h; }
  int64_t padded_width() const { return (out_w - 1) * stride_w + kernel_w; }
  // The number of taps of a window on a group's channels.
  int64_t taps() const { return channels / groups * kernel_h * kernel_w; }
};

// Copies one image into `planes`, {channels / block, padded_height, padded_width, block}. Leaves
// the padding there unchanged.
void CopyIntoPlanes(const ConvolutionShape& shape, const float* image, float* planes);

// A convolution kernel for processors with AVX2 but not AVX-512.
//
// oneDNN 2.6's kernels process columns of one row of the top, three at a time. The remaining
// columns (1 of 13, for example) leave the arithmetic units half idle. The tiles of this kernel
// continue from row to row and skip the padding.

// Whether the kernel supports the shape: this processor has AVX2, the channels of a group fill
// whole blocks, and its outputs fill pairs of blocks.
bool ConvolutionKernelFits(const ConvolutionShape& shape);
// Whether the kernel is also faster on this processor than oneDNN's primitives.
bool IsConvolutionKernelWorthwhile(const ConvolutionShape& shape);

// Used by one thread at a time.
class ConvolutionKernel {
 public:
  explicit ConvolutionKernel(const ConvolutionShape& shape);

  // Weights are {outputs / 16, channels / groups, kernel_h, kernel_w, 16}. Writes all of `top`.
  // `bias` {outputs} may be null.
  void Run(const float* bottom, const float* weights, const float* bias, float* top);

  struct Window {
    int64_t image, top;  // offsets in planes_ and in a block of the top
  };
  struct Tap {
    int64_t image;    // offset in planes_ from a window's corner, within a group
    int64_t weights;  // offset among the weights of 16 outputs
  };
  // Windows that use the same taps; their other taps lie on padding.
  struct Part {
    std::vector<Window> windows;
    std::vector<Tap> taps;  // {channels / groups, taps of one channel}
    bool all_taps;
  };

 private:
  void MakeParts();

  const ConvolutionShape shape_;
  const int64_t height_, width_;  // of an image including the padding that windows reach
  Buffer planes_;                 // {channels / block, height, width, block}: one image
  std::vector<Part> parts_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_KERNEL_H_
