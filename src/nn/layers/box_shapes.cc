#include "nn/layers/box_shapes.h"

namespace millrace::inline nn {
namespace {

void CheckPredictions(const Blob& blob, const char* field, const BoxShapes& shapes, int64_t each) {
  if (blob.num_axes() >= 2 && blob.dim(0) == shapes.images &&
      blob.count(1) == shapes.priors * each) {
    return;
  }
  throw FieldError(field, "has shape ", ShapeText(blob.shape()), ", expected ", shapes.images,
                   " x ", shapes.priors * each, ": ", each, " values for each of ", shapes.priors,
                   " prior boxes");
}

}  // namespace

BoxShapes BoxShapesOf(const Blobs& bottom, int64_t location_classes, int64_t classes) {
  const Blob& priors = *bottom[2];
  if (priors.num_axes() < 3 || priors.dim(0) != 1 || priors.dim(1) != 2 || priors.count(2) == 0 ||
      priors.count(2) % 4 != 0) {
    throw FieldError("bottom[2]", "has shape ", ShapeText(priors.shape()),
                     ", expected 1 x 2 x (4 per prior box), as PriorBox gives it");
  }
  if (bottom[0]->num_axes() < 2) {
    throw FieldError("bottom[0]", "has shape ", ShapeText(bottom[0]->shape()),
                     ", expected images and locations");
  }
  const BoxShapes shapes{bottom[0]->dim(0), priors.count(2) / 4};
  CheckPredictions(*bottom[0], "bottom[0]", shapes, 4 * location_classes);
  CheckPredictions(*bottom[1], "bottom[1]", shapes, classes);
  return shapes;
}

}  // namespace millrace::inline nn
