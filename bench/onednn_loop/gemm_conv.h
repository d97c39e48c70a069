// The backward pass of a convolution over nhwc activations as matrix products.
//
// oneDNN 2.6's direct kernels for AVX2 reach a third to a half of their speed
// where the input channels fill no whole vectors of 8, as LeNet's 20 do; its
// matrix product does not mind.
#ifndef MILLRACE_BENCH_ONEDNN_LOOP_GEMM_CONV_H_
#define MILLRACE_BENCH_ONEDNN_LOOP_GEMM_CONV_H_

#include "bench/onednn_loop/huge_buffer.h"

namespace onednn_loop {

// Square images, stride 1, no padding, one group.
struct GemmConvShape {
  int images, channels, side, outputs, kernel;
  int out_side() const { return side - kernel + 1; }
  int patch() const { return kernel * kernel * channels; }  // values under a window
};

// Used by one thread at a time. Weights and their gradient are in ohwi order.
class GemmConvBackward {
 public:
  explicit GemmConvBackward(const GemmConvShape& shape);

  // Writes all of dx.
  void Data(const float* dy, const float* weights, float* dx);
  // Writes all of dw and, `outputs` values, db.
  void Weights(const float* x, const float* dy, float* dw, float* db);

 private:
  const GemmConvShape shape_;
  HugeBuffer patches_;  // of the images that are worked on together
};

}  // namespace onednn_loop

#endif  // MILLRACE_BENCH_ONEDNN_LOOP_GEMM_CONV_H_
