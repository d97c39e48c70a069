#include "nn/layers/label_margin_layer.h"

#include "nn/layers/labels.h"

namespace millrace::inline nn {

void LabelMarginLayer::SetUp(const Blobs&, const Blobs&) { check_.Reserve(*context_.queue); }

void LabelMarginLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Blob& scores = *bottom[0];
  if (scores.num_axes() == 0) {
    throw FieldError("bottom[0]", "has no axes, expected at least 1");
  }
  view_.outer = scores.dim(0);
  view_.classes = scores.count(1);
  view_.inner = 1;
  if (bottom[1]->count() != view_.outer) {
    throw FieldError("bottom[1]", "has shape ", ShapeText(bottom[1]->shape()), ", expected ",
                     view_.outer, " labels: one for each example of bottom[0]");
  }
  if (top[0] != bottom[0]) top[0]->ReshapeLike(scores);
}

bool LabelMarginLayer::CopiesInTest(const float* in, float* out) {
  if (context_.phase == caffe::TRAIN) return false;
  if (in != out) context_.queue->Copy(out, in, view_.outer * view_.classes * sizeof(float));
  return true;
}

void LabelMarginLayer::CheckForward(const Blobs& bottom) {
  if (!check_.found()) return;
  std::vector<float> copy;
  Labels(name(), {}).CheckAll(bottom[1]->DataOnHost(&copy), view_);
}

}  // namespace millrace::inline nn
