// The backward pass of a convolution, for channels-innermost activations, as matrix products.
//
// oneDNN 2.6's direct kernels lose up to half of their speed if the input channels do not fill
// whole vectors (LeNet's second convolution has 20). Its matrix product keeps its speed.
#ifndef MILLRACE_NN_ONEDNN_GEMM_CONVOLUTION_H_
#define MILLRACE_NN_ONEDNN_GEMM_CONVOLUTION_H_

#include <cstdint>

#include "millrace/device.h"

namespace millrace::inline nn::onednn {

// Stride 1, dilation 1, no padding, one group.
struct GemmConvolutionShape {
  int64_t images, channels, height, width, outputs, kernel_h, kernel_w;

  int64_t windows() const { return (height - kernel_h + 1) * (width - kernel_w + 1); }
  int64_t patch() const { return kernel_h * kernel_w * channels; }  // values under a window
  int64_t image() const { return height * width * channels; }
};

// Whether this is faster on this processor than oneDNN's convolution primitives.
bool IsGemmConvolutionWorthwhile(const GemmConvolutionShape& shape);

// Used by one thread at a time. Activations are {N, H, W, C}, weights and their gradient {outputs,
// kernel_h, kernel_w, channels}, row-major.
class GemmConvolutionBackward {
 public:
  explicit GemmConvolutionBackward(const GemmConvolutionShape& shape);

  // Writes all of bottom_diff.
  void Data(const float* top_diff, const float* weights, float* bottom_diff);
  // Writes all of weight_diff and, unless it is null, of bias_diff {outputs}.
  void Weights(const float* bottom, const float* top_diff, float* weight_diff, float* bias_diff);

 private:
  const GemmConvolutionShape shape_;
  Buffer patches_;  // of the images that are processed together
};

}  // namespace millrace::inline nn::onednn

#endif  // MILLRACE_NN_ONEDNN_GEMM_CONVOLUTION_H_
