// The geometry of convolutions, and the interface of what computes them.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_GEOMETRY_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_GEOMETRY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/blob.h"
#include "proto/caffe.pb.h"

namespace millrace::inline nn {

// The windows of a convolution, as the fields of convolution_param give them for a bottom: of the
// layers Convolution, Deconvolution and Im2col.

// A convolution from blobs with `channels` channels to blobs with `num_output` channels. Blobs have
// any number of axes before the channels, which count images, and any number of spatial axes behind
// them. A folded shape is {images, channels, spatial axes} with at least two spatial axes: of one
// or none, the missing ones are put first and have size 1.
struct ConvolutionGeometry {
  int channel_axis = 1;  // of the blobs
  int spatial = 2;       // number of spatial axes of the blobs
  int64_t channels = 1, num_output = 1, group = 1;
  Shape kernel, stride, pad, dilation;  // along the spatial axes of folded shapes
  bool bias = false;

  // Number of spatial axes of folded shapes.
  int axes() const { return static_cast<int>(kernel.size()); }
  // Whether blobs are {images, channels, height, width}, and so may have any memory order.
  bool is_plain_2d() const { return channel_axis == 1 && spatial == 2; }
  // Number of places along a spatial axis that a window spans.
  int64_t Extent(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }

  Shape Folded(const Shape& blob) const;
  // The shape of the blob that the convolution computes from a blob of shape `bottom`. As in Caffe,
  // a window that is larger than the padded bottom by less than the stride counts as one window,
  // with zeros beyond the bottom. Throws FieldError if it is larger by more.
  Shape TopShape(const Shape& bottom) const;
  // Whether there is such a window. The libraries have no convolution for it.
  bool WindowExceeds(const Shape& bottom) const;
  // The shape of the blob that a convolution with a top of shape `top` reads, if no value is left
  // over: that a deconvolution computes. Throws FieldError if it is empty.
  Shape BottomShape(const Shape& top) const;

  // {num_output, channels/group, spatial sizes of the kernel}
  Shape WeightShape() const;
  // {group, num_output/group, channels/group, kernel}, with the axes of folded shapes; without the
  // group axis if there is one group.
  Shape GroupedWeightShape() const;
};

// Reads the windows, `group`, `bias_term` and `num_output` for a layer with a bottom of this shape.
// `reversed`: the layer is a deconvolution, which is the backward pass of the described
// convolution: the bottom has its num_output channels. Throws FieldError.
ConvolutionGeometry ReadConvolutionGeometry(const caffe::LayerParameter& layer, const Blob& bottom,
                                            bool reversed);
// Reads the windows alone; group and num_output are 1.
ConvolutionGeometry ReadConvolutionWindows(const caffe::LayerParameter& layer, const Blob& bottom);

// A convolution on arrays in plain order, by an algorithm that has been chosen for its shape.

// What computes a pass.
struct PassAlgorithm {
  std::string pass;        // "forward", "backward" (of the data) or "weight"
  std::string arithmetic;  // "fp32", "tf32" or "bf16"
  int number;              // the library's
};

// The input of a plan that a layer's forward pass reads, and its backward pass reads again.
enum class KeptInput {
  kNone,    // there is no backward pass
  kBottom,  // of a convolution
  kTop,     // of a deconvolution: its bottom is the plan's top
};

// All functions enqueue work on the queue that the plan was made for, which outlives it, allocate
// nothing, and throw Error if the device has failed. Arrays are in the device's memory; `workspace`
// has workspace_bytes() bytes there.
//
// A plan may keep copies of a bottom, or of the gradient at a top, that one pass has read, for the
// next pass that reads the same array: the kept input's from the forward pass on, others in the
// workspace.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;

  virtual size_t workspace_bytes() const = 0;
  // What computes the passes now, where a library does: an algorithm that fails is replaced.
  virtual std::vector<PassAlgorithm> algorithms() const { return {}; }
  // Call before a pass that reads this array (weights aside) with new values; and before the first
  // pass after other work has used the workspace.
  virtual void Renew(const float* array) { (void)array; }
  virtual void Forward(const float* bottom, const float* weights, float* top, void* workspace) = 0;
  virtual void BackwardData(const float* top_diff, const float* weights, float* bottom_diff,
                            void* workspace) = 0;
  // Adds to weight_diff if `add`, else overwrites it.
  virtual void BackwardWeights(const float* bottom, const float* top_diff, bool add,
                               float* weight_diff, void* workspace) = 0;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_GEOMETRY_H_
