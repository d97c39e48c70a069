// Focal loss (Lin, Goyal, Girshick, He, Dollar 2017) of the softmax of the scores, as the FocalLoss
// of zimenglan-sysu-512/Focal-Loss with type ORIGIN. With p the softmax of x along
// softmax_param.axis, l the label of a position, and q = max(p[l], FLT_MIN),
//   top[0] = 1/Z sum over positions of -alpha (1 - p[l])^gamma log q
//   dE/dx[c] = w/Z g (p[c] - [c = l]),   w = dE/dtop[0]
//   g = alpha ((1 - p[l])^gamma - gamma (1 - p[l])^(gamma - 1) p[l] log q)
// Bottoms: scores, labels (one per position, see Labels). Positions with loss_param.ignore_label do
// not count. Z: see loss_normalization.h; the default is VALID. top[1] (optional) is p; no gradient
// flows back from it.
#ifndef MILLRACE_NN_LAYERS_FOCAL_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_FOCAL_LOSS_LAYER_H_

#include <optional>

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class FocalLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  Arity arity() const override { return {2, 2, 1, 2}; }
  std::set<std::string> fields() const override {
    return {"focal_loss_param", "softmax_param", "loss_param"};
  }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  AxisView view_;
  std::optional<Labels> labels_;
  Blob probability_{memory()};  // p of the last Forward
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_FOCAL_LOSS_LAYER_H_
