// Smooth L1 loss of Fast R-CNN (Girshick 2015), as in rbgirshick/caffe-fast-rcnn. With
// N examples, s = smooth_l1_loss_param.sigma and d = inside (a - b),
//   top[0] = 1/N sum over all values of outside f(d)
//   f(d) = s^2 d^2 / 2 if |d| < 1/s^2, else |d| - 1/(2 s^2)
//   dE/da = w/N inside outside f'(d),   dE/db = -dE/da,   w = dE/dtop[0]
// Bottoms: predictions a, targets b, and none, the inside, or the inside and the outside weights
// (the first version of Fast R-CNN has the inside weights alone); all have as many values. Weights
// have no gradient.
//
// SmoothL1LossOHEM (R-FCN) has s = 1, at most the inside weights, and divides by the Z of
// loss_param.normalization in place of N: examples times places for FULL and VALID, which is the
// default; loss_normalization.h has the others. Its top[1] (optional) is the sum over the
// channels, per example and place, without the division; no gradient flows back from it.
#ifndef MILLRACE_NN_LAYERS_SMOOTH_L1_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_SMOOTH_L1_LOSS_LAYER_H_

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class SmoothL1LossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  Arity arity() const override { return ohem() ? Arity{2, 3, 1, 2} : Arity{2, 4, 1, 1}; }
  std::set<std::string> fields() const override {
    return {ohem() ? "loss_param" : "smooth_l1_loss_param"};
  }
  bool AllowBackward(int bottom) const override { return bottom < 2; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  bool ohem() const { return type() == "SmoothL1LossOHEM"; }
  float sigma() const { return ohem() ? 1.0f : param_.smooth_l1_loss_param().sigma(); }

  LossNormalizer normalizer_{};
  int64_t channels_ = 1, places_ = 1;  // of each example, for top[1]
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SMOOTH_L1_LOSS_LAYER_H_
