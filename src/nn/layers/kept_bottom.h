// The values of a bottom for the backward pass, also of a layer that works in place.
#ifndef MILLRACE_NN_LAYERS_KEPT_BOTTOM_H_
#define MILLRACE_NN_LAYERS_KEPT_BOTTOM_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

class KeptBottom {
 public:
  // `memory`: of the layer's blobs.
  explicit KeptBottom(MemorySpace& memory) : copy_(memory) {}

  // For Layer::Reshape.
  void Reshape(const Blob& bottom, const Blob& top) {
    copies_ = &bottom == &top;
    if (copies_) copy_.ReshapeLike(bottom);
  }
  // Memory for the copy, for a forward pass that writes it itself; null if the layer does not work
  // in place.
  float* copy() const { return copies_ ? copy_.data() : nullptr; }
  // Enqueues a copy. Call before the forward pass overwrites the bottom; does nothing if the
  // layer does not work in place.
  void Keep(const Blob& bottom, Queue& queue) const {
    if (copies_) queue.Copy(copy_.data(), bottom.data(), bottom.count() * sizeof(float));
  }
  // The values that the bottom had in the forward pass.
  const float* Values(const Blob& bottom) const { return copies_ ? copy_.data() : bottom.data(); }

 private:
  bool copies_ = false;
  Blob copy_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_KEPT_BOTTOM_H_
