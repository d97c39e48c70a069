// Rectified linear unit: top = max(0, bottom) + negative_slope * min(0, bottom). May work in place;
// accepts any memory order.
#ifndef MILLRACE_NN_LAYERS_RELU_LAYER_H_
#define MILLRACE_NN_LAYERS_RELU_LAYER_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

class ReluLayer : public Layer {
 public:
  using Layer::Layer;

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"relu_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override { top[0]->ReshapeLike(*bottom[0]); }

  float slope() const { return param_.relu_param().negative_slope(); }
  // A layer in front does the work of this one (takes_in.h).
  void set_taken_in(bool taken_in) { taken_in_ = taken_in; }

 protected:
  bool taken_in_ = false;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_RELU_LAYER_H_
