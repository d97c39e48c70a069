#include "nn/layers/split_layer.h"

namespace millrace::inline nn {

void SplitLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  for (Blob* blob : top) {
    // Shares first, so that a new top does not allocate memory.
    blob->ShareData(*bottom[0]);
    blob->ReshapeLike(*bottom[0]);
  }
}

void SplitLayer::Forward(const Blobs& bottom, const Blobs& top) {
  // The bottom's memory may have changed since the last pass.
  for (Blob* blob : top) {
    if (blob->data() != bottom[0]->data()) blob->ShareData(*bottom[0]);
  }
}

}  // namespace millrace::inline nn
