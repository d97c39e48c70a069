// What loss layers have in common: two bottoms (predictions, labels), of which the second has no
// gradient; one top, the loss, a scalar that the net adds to its objective with weight 1 and makes
// if the net file names none.
#ifndef MILLRACE_NN_LAYERS_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_LOSS_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/loss_sum.h"

namespace millrace::inline nn {

class LossLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  float DefaultLossWeight(int top) const override { return top == 0 ? 1 : 0; }
  bool AllowBackward(int bottom) const override { return bottom != 1; }
  bool AutoTop() const override { return true; }

 protected:
  // Sets the shape of the loss and prepares to add up `elements` terms.
  void ReshapeLoss(const Blobs& top, int64_t elements) {
    top[0]->Reshape({});
    sum_.Reserve(elements, *context_.queue);
  }
  // The number of examples: the first axis of bottom[0]. Throws FieldError if bottom[0] has no axis
  // or if bottom[i] has another number of examples.
  static int64_t Examples(const Blobs& bottom, size_t i = 1);
  // Throws FieldError unless bottom[i] has as many examples and values as bottom[0].
  static void CheckSameCount(const Blobs& bottom, size_t i);
  // Throws FieldError unless bottom[1] holds one value per example.
  static void CheckOneLabelPerExample(const Blobs& bottom);

  LossSum sum_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LOSS_LAYER_H_
