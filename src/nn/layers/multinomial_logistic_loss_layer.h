// Multinomial logistic loss of probabilities p, which another layer computes. With N examples and
// labels l,
//   top[0] = 1/N sum of -log max(p[l], 1e-20)
//   dE/dp[c] = -w/N [c = l] / max(p[l], 1e-20),   w = dE/dtop[0]
// Bottoms: probabilities (all values of an example are its classes), labels (one per example).
// SoftmaxWithLoss computes the gradient by the scores more exactly.
#ifndef MILLRACE_NN_LAYERS_MULTINOMIAL_LOGISTIC_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_MULTINOMIAL_LOGISTIC_LOSS_LAYER_H_

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class MultinomialLogisticLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  AxisView view_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_MULTINOMIAL_LOGISTIC_LOSS_LAYER_H_
