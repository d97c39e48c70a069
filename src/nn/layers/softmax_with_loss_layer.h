// Multinomial logistic loss of the softmax of the scores. Bottoms: scores x, labels l (one per
// position, see Labels). With p the softmax of x along softmax_param.axis,
//   top[0] = 1/Z sum over positions of -log max(p[l], FLT_MIN)
//   dE/dx[c] = w/Z (p[c] - [c = l]),   w = dE/dtop[0] (the loss weight)
// Positions with loss_param.ignore_label count neither in the sum nor in the gradient. Z: see
// loss_normalization.h; the default is VALID.
// top[1] (optional) is p; no gradient flows back from it.
#ifndef MILLRACE_NN_LAYERS_SOFTMAX_WITH_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_SOFTMAX_WITH_LOSS_LAYER_H_

#include <optional>

#include "millrace/layer.h"
#include "nn/layers/labels.h"
#include "nn/layers/softmax_layer.h"

namespace millrace::inline nn {

class SoftmaxWithLossLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 2}; }
  std::set<std::string> fields() const override { return {"softmax_param", "loss_param"}; }
  float DefaultLossWeight(int top) const override { return top == 0 ? 1 : 0; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }
  bool AutoTop() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;

 protected:
  // Whether Z depends on the number of positions that are not ignored.
  bool counts_valid() const { return normalization_ == caffe::LossParameter::VALID; }
  // Returns Z for `valid` positions that are not ignored.
  double Normalizer(int64_t valid) const;

  AxisView view_;
  std::optional<Labels> labels_;
  Blob probability_{memory()};

 private:
  caffe::LossParameter::NormalizationMode normalization_ = caffe::LossParameter::VALID;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SOFTMAX_WITH_LOSS_LAYER_H_
