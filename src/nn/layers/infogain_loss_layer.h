// A softmax loss that weighs each confusion of classes by a matrix H {classes, classes}. With p the
// softmax of the scores along infogain_loss_param.axis and l the label of a position,
//   top[0] = 1/Z sum over positions and classes c of -H[l][c] log max(p[c], 1e-20)
//   dE/dx[c] = w/Z (p[c] sum over k of H[l][k] - H[l][c]),   w = dE/dtop[0]
// H the identity is SoftmaxWithLoss. Bottoms: scores, labels (one per position, see Labels), and
// optionally H; without it H is read from the file infogain_loss_param.source, a BlobProto. No
// gradient flows to labels and H. Positions with loss_param.ignore_label do not count. Z: see
// loss_normalization.h; the default is VALID, and the legacy `normalize` is refused, as in Caffe.
// top[1] (optional) is p; no gradient flows back from it.
#ifndef MILLRACE_NN_LAYERS_INFOGAIN_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_INFOGAIN_LOSS_LAYER_H_

#include <optional>

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class InfogainLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  Arity arity() const override { return {2, 3, 1, 2}; }
  std::set<std::string> fields() const override { return {"infogain_loss_param", "loss_param"}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  const Blob& Matrix(const Blobs& bottom) const { return bottom.size() > 2 ? *bottom[2] : matrix_; }

  AxisView view_;
  std::optional<Labels> labels_;
  Blob matrix_{memory()};       // H from the file
  Blob row_sums_{memory()};     // of H
  Blob probability_{memory()};  // p of the last Forward
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INFOGAIN_LOSS_LAYER_H_
