#include "nn/layers/batch_reindex_layer.h"

namespace millrace::inline nn {

void BatchReindexLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  if (bottom[0]->num_axes() < 1) throw FieldError("bottom[0]", "has no axes, expected at least 1");
  if (bottom[1]->num_axes() != 1) {
    throw FieldError("bottom[1]", "has ", bottom[1]->num_axes(), " axes, expected 1");
  }
  Shape shape = bottom[0]->shape();
  shape[0] = bottom[1]->dim(0);
  top[0]->Reshape(shape);
  gather_.Reserve(*context_.queue, bottom[0]->dim(0), bottom[0]->count(1), shape[0]);
}

void BatchReindexLayer::Forward(const Blobs& bottom, const Blobs& top) {
  gather_.Forward(bottom[1]->data(), bottom[0]->data(), nullptr, top[0]->data());
}

void BatchReindexLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                 const Blobs& bottom) {
  if (!propagate_down[0]) return;
  float* const diff = bottom[0]->diff();
  context_.queue->Fill(diff, 0, bottom[0]->count() * sizeof(float));
  gather_.AddBackward(bottom[1]->data(), top[0]->diff(), diff);
}

namespace {

const RegisterLayer<BatchReindexLayer> registered("BatchReindex");

}  // namespace
}  // namespace millrace::inline nn
