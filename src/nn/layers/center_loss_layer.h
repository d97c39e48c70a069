// Center loss (Wen, Zhang, Li, Qiao 2016), as in ydwen/caffe-face: the distance of each example's
// features x {K} from the learnable center of its class. With M examples, labels l and centers C
// {num_output, K},
//   top[0] = 1/(2M) sum over examples of |x - C[l]|^2
//   dE/dx = w/M (x - C[l]),   w = dE/dtop[0]
// The centers have their own rule, which neither w nor M scales. With n_c examples of class c,
//   gradient of C[c] = 1/(1 + n_c) sum over the examples of class c of (C[c] - x)
// Bottoms: features, labels (one per example); the axes from center_loss_param.axis on form K.
#ifndef MILLRACE_NN_LAYERS_CENTER_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_CENTER_LOSS_LAYER_H_

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class CenterLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  std::set<std::string> fields() const override { return {"center_loss_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  int64_t features_ = 0;  // K
  AxisView view_;         // of the labels: examples, classes
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CENTER_LOSS_LAYER_H_
