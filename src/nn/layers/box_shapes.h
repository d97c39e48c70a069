// The bottoms of layers that work on the boxes of SSD:
//   locations    {images, priors * location classes * 4}
//   confidences  {images, priors * classes}
//   priors       {1, 2, priors * 4}, see PriorBox
// Further axes of size 1 may follow.
#ifndef MILLRACE_NN_LAYERS_BOX_SHAPES_H_
#define MILLRACE_NN_LAYERS_BOX_SHAPES_H_

#include <cstdint>

#include "millrace/layer.h"

namespace millrace::inline nn {

struct BoxShapes {
  int64_t images = 0, priors = 0;
};

// Throws FieldError if bottoms 0 to 2 do not fit to each other and to these numbers of classes.
BoxShapes BoxShapesOf(const Blobs& bottom, int64_t location_classes, int64_t classes);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_BOX_SHAPES_H_
