// The gradient of a convolution's weights and bias, for processors with AVX2 but not AVX-512.
//
// oneDNN 2.6's kernels reach 70 to 85 % of the arithmetic peak here, and half of it where the
// bottom has only the few channels of an image: they accumulate too few sums per vector of the
// top's gradient that they load.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_WEIGHT_GRADIENT_KERNEL_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_WEIGHT_GRADIENT_KERNEL_H_

#include <compare>
#include <cstdint>
#include <vector>

#include "millrace/device.h"
#include "nn/layers/convolution/convolution_kernel.h"

namespace millrace::inline nn {

// Whether the kernel supports the shape: this processor has AVX2, and the channels and outputs of a
// group fill whole blocks.
bool WeightGradientFits(const ConvolutionShape& shape);
// Whether the kernel is also faster on this processor than oneDNN's convolution primitives.
bool IsWeightGradientKernelWorthwhile(const ConvolutionShape& shape);

// Used by one thread at a time.
class WeightGradient {
 public:
  explicit WeightGradient(const ConvolutionShape& shape);

  // Writes all of weight_diff and, unless it is null, of bias_diff {outputs}.
  void Run(const float* bottom, const float* top_diff, float* weight_diff, float* bias_diff);

  struct Range {
    int64_t begin, end;
    auto operator<=>(const Range&) const = default;
  };

 private:
  struct Windows {
    Range y, x;
    auto operator<=>(const Windows&) const = default;
  };
  // A range of taps that use these windows only; in the other windows they lie on padding.
  struct Part {
    Windows windows;
    int64_t begin, end;  // of the taps in `offsets_`
  };
  void OrderTaps();
  void AddRows(int64_t group, int64_t y, int64_t rows, const float* top_diff);
  void WriteResult(float* weight_diff, float* bias_diff) const;
  // The sums of the pair of output blocks that begins with output `o` of a group.
  float* SumsOf(int64_t group, int64_t o) const;

  const ConvolutionShape shape_;
  const int64_t height_, width_;  // of an image including the padding that windows reach
  const int64_t outputs_;         // of a group
  const int64_t taps_;            // of a window on a group's channels; the last one is the bias
  // {channels / block, height, width, block}: one image with its padding, followed by one block of
  // planes filled with ones: the tap of the bias.
  Buffer planes_;
  std::vector<Part> parts_;       // of the taps, which are sorted by part
  std::vector<int64_t> order_;    // {taps}: index of a window's weights in the sorted taps
  std::vector<int64_t> offsets_;  // {groups, taps}: offset in planes_ from a window's corner
  Buffer sums_;                   // {groups, pairs of blocks, taps, 16}
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_WEIGHT_GRADIENT_KERNEL_H_
