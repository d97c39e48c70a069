// Boxes as blobs hold them.
#ifndef MILLRACE_NN_BOXES_BOX_H_
#define MILLRACE_NN_BOXES_BOX_H_

#include <algorithm>
#include <array>

#include "data/box.h"

namespace millrace::inline nn {

// In the order in which blobs hold it.
inline std::array<float, 4> ValuesOf(const Box& box) {
  return {box.xmin, box.ymin, box.xmax, box.ymax};
}
inline Box BoxOf(const float* values) { return {values[0], values[1], values[2], values[3]}; }

// Whether a part of the box lies outside of the image.
inline bool CrossesImage(const Box& box) {
  const std::array<float, 4> values = ValuesOf(box);
  return std::any_of(values.begin(), values.end(), [](float x) { return x < 0 || x > 1; });
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BOXES_BOX_H_
