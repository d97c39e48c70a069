// One-versus-all hinge loss. With N examples of scores x, labels l, and s = -1 for the score of the
// label and 1 for the others,
//   m[n][c] = max(0, 1 + s x[n][c])
//   L1:  top[0] = 1/N sum of m,     dE/dx = w/N s [m > 0],   w = dE/dtop[0]
//   L2:  top[0] = 1/N sum of m^2,   dE/dx = 2w/N s m
// Bottoms: scores (all values of an example are its classes), labels (one per example). The norm is
// hinge_loss_param.norm.
#ifndef MILLRACE_NN_LAYERS_HINGE_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_HINGE_LOSS_LAYER_H_

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class HingeLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  std::set<std::string> fields() const override { return {"hinge_loss_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  AxisView view_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_HINGE_LOSS_LAYER_H_
