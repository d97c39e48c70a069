#include "nn/layers/view_layer.h"

namespace millrace::inline nn {

void ViewLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Shape shape = TopShape(*bottom[0]);
  if (shares_) top[0]->ShareData(*bottom[0]);  // first, so that the top does not allocate memory
  top[0]->Reshape(shape);
}

void ViewLayer::StopSharing(const Blobs& top) {
  shares_ = false;
  top[0]->BindData(nullptr);  // its next use allocates memory
}

void ViewLayer::Forward(const Blobs& bottom, const Blobs& top) {
  if (!shares_) {
    const size_t bytes = bottom[0]->count() * sizeof(float);
    return context_.queue->Copy(top[0]->data(), bottom[0]->data(), bytes);
  }
  // The bottom's memory may have changed since the last pass.
  if (top[0]->data() != bottom[0]->data()) top[0]->ShareData(*bottom[0]);
}

void ViewLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                         const Blobs& bottom) {
  if (!propagate_down[0]) return;
  context_.queue->Copy(bottom[0]->diff(), top[0]->diff(), bottom[0]->count() * sizeof(float));
}

}  // namespace millrace::inline nn
