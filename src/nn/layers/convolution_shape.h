// The shape of a convolution, as this project's own kernels need it.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_SHAPE_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_SHAPE_H_

#include <cstdint>

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_SHAPE_H_
