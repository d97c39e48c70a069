// Rectified linear unit: top = max(0, bottom) + negative_slope * min(0, bottom). May work in place,
// and then keeps a copy of the bottom if the slope is negative, where the top does not have its
// sign. Accepts any memory order.
#ifndef MILLRACE_NN_LAYERS_ACTIVATION_RELU_LAYER_H_
#define MILLRACE_NN_LAYERS_ACTIVATION_RELU_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/kept_bottom.h"

namespace millrace::inline nn {

class ReluLayer : public Layer {
 public:
  ReluLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), kept_(memory()) {}

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"relu_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }
  void Reshape(const Blobs& bottom, const Blobs& top) override {
    top[0]->ReshapeLike(*bottom[0]);
    if (slope() < 0) kept_.Reshape(*bottom[0], *top[0]);
  }

  float slope() const { return param_.relu_param().negative_slope(); }
  // A layer in front does the work of this one (layer_interfaces.h).
  void set_fused(bool fused) { fused_ = fused; }

 protected:
  KeptBottom kept_;
  bool fused_ = false;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ACTIVATION_RELU_LAYER_H_
