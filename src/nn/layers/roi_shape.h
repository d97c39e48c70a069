// What the layers that pool regions of interest share: checks of their bottoms and fields, and
// shapes.
#ifndef MILLRACE_NN_LAYERS_ROI_SHAPE_H_
#define MILLRACE_NN_LAYERS_ROI_SHAPE_H_

#include <string>

#include "millrace/layer.h"
#include "nn/layers/roi_kernels.h"
#include "nn/layers/shape_field.h"

namespace millrace::inline nn {

// Throws FieldError unless bottom[0] has the axes of images.
inline void CheckRoiImages(const Blobs& bottom) {
  if (bottom[0]->num_axes() == 4) return;
  throw FieldError("bottom[0]", "has ", bottom[0]->num_axes(), " axes, expected 4 (N, C, H, W)");
}

// The number of bins along an axis, given by `field`. Throws FieldError if it is 0.
inline int64_t PooledSize(const std::string& field, uint32_t value) {
  if (value > 0) return int64_t{value};
  throw FieldError(field, "0 given or missing, expected at least 1");
}

// Takes the sizes of images {N, C, H, W} and of regions {R, ...} into `shape`.
inline void TakeBottoms(const Blobs& bottom, RoiPoolShape* shape) {
  const Shape& images = bottom[0]->shape();
  shape->images = images[0];
  shape->channels = images[1];
  shape->height = images[2];
  shape->width = images[3];
  shape->regions = bottom[1]->dim(0);
}

// The shape of the pooled regions. Throws FieldError(`field`, ...) if a blob cannot have it.
inline Shape PooledShape(const RoiPoolShape& of, const std::string& field) {
  const Shape shape = {of.regions, of.top_channels, of.pooled_h, of.pooled_w};
  int64_t count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    count = CheckedProduct(count, shape[i], field, i < 2 ? 0 : 1);
  }
  return shape;
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ROI_SHAPE_H_
