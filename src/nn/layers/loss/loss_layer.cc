#include "nn/layers/loss/loss_layer.h"

namespace millrace::inline nn {

int64_t LossLayer::Examples(const Blobs& bottom, size_t i) {
  if (bottom[0]->num_axes() < 1) {
    throw FieldError("bottom[0]", "has no axes, expected one of examples");
  }
  const int64_t examples = bottom[0]->dim(0);
  if (bottom[i]->num_axes() < 1 || bottom[i]->dim(0) != examples) {
    throw FieldError(StrCat("bottom[", i, "]"), "has shape ", ShapeText(bottom[i]->shape()),
                     ", expected the ", examples, " examples of bottom[0]");
  }
  return examples;
}

void LossLayer::CheckSameCount(const Blobs& bottom, size_t i) {
  Examples(bottom, i);
  if (bottom[i]->count() == bottom[0]->count()) return;
  throw FieldError(StrCat("bottom[", i, "]"), "has shape ", ShapeText(bottom[i]->shape()),
                   ", expected as many values as bottom[0]: ", ShapeText(bottom[0]->shape()));
}

void LossLayer::CheckOneLabelPerExample(const Blobs& bottom) {
  const int64_t examples = Examples(bottom);
  if (bottom[1]->count() == examples) return;
  throw FieldError("bottom[1]", "has shape ", ShapeText(bottom[1]->shape()), ", expected ",
                   examples, " labels: one for each example");
}

}  // namespace millrace::inline nn
