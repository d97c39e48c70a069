// Base of layers that make the score of each example's label smaller, so that training separates
// classes by a margin. Bottoms: scores {N, ..}, labels (one for each of the N examples). Tests copy
// the scores, whatever the field `transform_test` is: as in Caffe.
#ifndef MILLRACE_NN_LAYERS_LABEL_MARGIN_LAYER_H_
#define MILLRACE_NN_LAYERS_LABEL_MARGIN_LAYER_H_

#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/index_check.h"
#include "nn/layers/label_margin_kernels.h"
#include "nn/layers/softmax_layer.h"

namespace millrace::inline nn {

class LabelMarginLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;

 protected:
  template <typename Formula>
  void RunForward(const Formula& formula, const Blobs& bottom, const Blobs& top) {
    if (CopiesInTest(bottom[0]->data(), top[0]->data())) return;
    Launch(*context_.queue, bottom[0]->count(),
           LabelMarginForward<Formula>{formula, view_.classes, bottom[1]->data(), bottom[0]->data(),
                                       top[0]->data()});
    check_.Enqueue(*context_.queue, view_.classes, view_.outer, bottom[1]->data());
  }
  // A layer that works in place needs a formula whose slope does not depend on the score.
  template <typename Formula>
  void RunBackward(const Formula& formula, const Blobs& top, const Blobs& bottom) {
    if (CopiesInTest(top[0]->diff(), bottom[0]->diff())) return;
    Launch(*context_.queue, bottom[0]->count(),
           LabelMarginBackward<Formula>{formula, view_.classes, bottom[1]->data(),
                                        bottom[0]->data(), top[0]->diff(), bottom[0]->diff()});
  }

 private:
  // In a test, enqueues the copy and returns true.
  bool CopiesInTest(const float* in, float* out);

  AxisView view_;  // of the scores: examples, classes
  IndexCheck check_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LABEL_MARGIN_LAYER_H_
