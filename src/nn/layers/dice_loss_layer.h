// Dice loss of the sigmoids s of the scores x and a mask t of zeros and ones, over the whole batch,
// as the DiceLoss of xiamenwcy/extended-caffe:
//   top[0] = 1 - U / D,   U = 2 sum of t s + e,   D = sum of (t + s) + e,   e = 1e-6
//   dE/dx = -w (2 t D - U) / D^2 s (1 - s),   w = dE/dtop[0]
// Bottoms: x, t, with the same number of values. Values whose target is loss_param.ignore_label
// after truncation to a whole number count neither in the sums nor in the gradient. (The fork
// leaves them out of the sums in the forward pass only.)
#ifndef MILLRACE_NN_LAYERS_DICE_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_DICE_LOSS_LAYER_H_

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class DiceLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  std::set<std::string> fields() const override { return {"loss_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  Blob ratio_{memory()};  // U and D of the last Forward
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DICE_LOSS_LAYER_H_
