// Channels of blobs, and axes that learned arrays belong to.
#ifndef MILLRACE_NN_LAYERS_CHANNEL_AXES_H_
#define MILLRACE_NN_LAYERS_CHANNEL_AXES_H_

#include <string>

#include "millrace/blob.h"
#include "millrace/layer.h"
#include "nn/layers/channel_view.h"
#include "nn/layout.h"

namespace millrace::inline nn {

// The channels of a blob, which are its axis 1.

// `blob` has at least two axes and any memory order.
inline ChannelView ChannelsOf(const Blob& blob) {
  if (blob.layout() == Layout::kPlain) {
    return ChannelView::Plain(blob.dim(0), blob.dim(1), blob.count(2));
  }
  const SpatialView view = ViewOf(blob);
  return {blob.dim(0), blob.dim(1) / view.inner, view.height * view.width, view.inner};
}

// Arrays that match some axes of a bottom, and are repeated along the others: the scales of a Scale
// layer, the biases of a Bias layer.

// The parameters of such a layer. `field` is their name in LayerParameter: "scale_param".
struct MatchedAxes {
  std::string field;
  int axis = 1;      // the first; may be negative, counted from the end
  int num_axes = 1;  // -1: all from `axis` on

  // The shape of a learned array. Throws FieldError if the bottom has no such axes.
  Shape ShapeIn(const Blob& bottom) const;
  // The bottom's values by the number in the array that they belong to, for an array of any shape
  // (num_axes is not used). Throws FieldError("bottom", ...) if the shapes do not match.
  ChannelView View(const Blob& bottom, const Shape& array) const;
  // The memory order that the bottom of a layer with a learned array may keep: any if the array has
  // one number per channel, or one in all; plain order otherwise.
  Layout LayoutOf(const Blob& bottom) const;

 private:
  int FirstAxis(const Blob& bottom) const;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CHANNEL_AXES_H_
