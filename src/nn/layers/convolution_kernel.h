// A convolution for processors with AVX2 but not AVX-512.
//
// oneDNN 2.6's kernels work on columns of one row of the top, three at a time, and
// leave the arithmetic units half idle for those that remain: 1 of 13, say. These
// tiles run on from row to row, and leave out the padding.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_KERNEL_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_KERNEL_H_

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "nn/layers/convolution_shape.h"

namespace millrace {

// Whether the kernel can do it: this processor has AVX2, a group's channels fill
// blocks, and its outputs pairs of blocks.
bool ConvolutionKernelFits(const ConvolutionShape& shape);
// Whether it also takes less time here than oneDNN's primitives.
bool ConvolutionKernelPays(const ConvolutionShape& shape);

// Used by one thread at a time.
class ConvolutionKernel {
 public:
  explicit ConvolutionKernel(const ConvolutionShape& shape);

  // Weights {outputs / 16, channels / groups, kernel_h, kernel_w, 16}. Writes all of
  // `top`. `bias` {outputs} may be null.
  void Run(const float* bottom, const float* weights, const float* bias, float* top);

  struct Window {
    int64_t image, top;  // where it is in planes_ and in a block of the top
  };
  struct Tap {
    int64_t image;    // in planes_, from a window's corner in a group
    int64_t weights;  // its place among those of 16 outputs
  };
  // Windows of which the same taps lie on the image and not on its padding.
  struct Part {
    std::vector<Window> windows;
    std::vector<Tap> taps;  // {channels / groups, those of one channel}
    bool all_taps;
  };

 private:
  void MakeParts();

  const ConvolutionShape shape_;
  const int64_t height_, width_;  // of an image with its padding, as far as windows reach
  Buffer planes_;                 // {channels / block, height, width, block}: one image
  std::vector<Part> parts_;
};

}  // namespace millrace

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_KERNEL_H_
