// The memory order of 4-axis activations, and its choice.
#ifndef MILLRACE_NN_LAYOUT_H_
#define MILLRACE_NN_LAYOUT_H_

#include <vector>

#include "millrace/blob.h"
#include "millrace/device.h"
#include "nn/net_param.h"

namespace millrace::inline nn {

// Channels per block; 1 for kPlain and kNhwc.
inline int BlockOf(Layout layout) {
  return layout == Layout::kBlocked8 ? 8 : layout == Layout::kBlocked16 ? 16 : 1;
}

// `preferred` if a blob of this shape supports it, else kPlain.
inline Layout FittingLayout(Layout preferred, const Shape& shape) {
  if (shape.size() != 4 || shape[1] % BlockOf(preferred) != 0) return Layout::kPlain;
  return preferred;
}

// In memory, a 4-axis blob of any order is [outer][height][width][inner].
struct SpatialView {
  int64_t outer, height, width, inner;
};

inline SpatialView ViewOf(const Blob& blob) {
  const int64_t channels = blob.dim(1);
  const int64_t inner = blob.layout() == Layout::kNhwc ? channels : BlockOf(blob.layout());
  return {blob.dim(0) * channels / inner, blob.dim(2), blob.dim(3), inner};
}

// The best order for a net of these layers, a function of its arguments and this machine's device
// alone, so that runs are reproducible bit for bit.
using LayoutChooser = Layout (*)(const std::vector<PlacedLayer>& layers);

// The choice of the chooser registered for this type of device; kPlain if there is none.
Layout ChooseLayout(const std::vector<PlacedLayer>& layers, DeviceType device);

// Define one at namespace scope in a backend's file.
struct RegisterLayoutChooser {
  RegisterLayoutChooser(DeviceType device, LayoutChooser chooser);
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYOUT_H_
