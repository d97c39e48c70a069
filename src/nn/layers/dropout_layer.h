// Dropout (Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014), scaled during training.
// With p = dropout_ratio, 0 <= p <= 1:
//   training:  y = m x / (1 - p),   dE/dx = m dE/dy / (1 - p),
//              where m is 0 with probability p and 1 otherwise
//   testing:   y = x
// With p = 1 every value is 0 in training (Caffe computes 0 times infinity there). Fields of forks:
//   sample_weights_test: true   tests are like training (SegNet)
//   scale_train: false          training does not divide by 1 - p; tests multiply by it (Fast
//   R-CNN)
// The mask is a function of (seed, layer, pass) alone. The layer accepts any memory order and may
// work in place.
#ifndef MILLRACE_NN_LAYERS_DROPOUT_LAYER_H_
#define MILLRACE_NN_LAYERS_DROPOUT_LAYER_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

class DropoutLayer : public Layer {
 public:
  using Layer::Layer;

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"dropout_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;

 protected:
  bool drops() const {
    return context_.phase == caffe::TRAIN || param_.dropout_param().sample_weights_test();
  }

  // A value is dropped if its 32 random bits, as a number, are below this threshold: p in units of
  // 2^-32.
  uint32_t threshold_ = 0;
  float scale_ = 1;  // of the values that are kept, all of them if the layer does not drop
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DROPOUT_LAYER_H_
