// Smooth L1 loss of Fast R-CNN (Girshick 2015), as in rbgirshick/caffe-fast-rcnn. With
// N examples, s = smooth_l1_loss_param.sigma and d = inside (a - b),
//   top[0] = 1/N sum over all values of outside f(d)
//   f(d) = s^2 d^2 / 2 if |d| < 1/s^2, else |d| - 1/(2 s^2)
//   dE/da = w/N inside outside f'(d),   dE/db = -dE/da,   w = dE/dtop[0]
// Bottoms: predictions a, targets b, and either none or both of the inside and the outside weights;
// all have as many values. Weights have no gradient.
#ifndef MILLRACE_NN_LAYERS_SMOOTH_L1_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_SMOOTH_L1_LOSS_LAYER_H_

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class SmoothL1LossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  Arity arity() const override { return {2, 4, 1, 1}; }
  std::set<std::string> fields() const override { return {"smooth_l1_loss_param"}; }
  bool AllowBackward(int bottom) const override { return bottom < 2; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SMOOTH_L1_LOSS_LAYER_H_
