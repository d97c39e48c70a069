// Multinomial logistic loss of the softmax of the scores. Bottoms: scores x, labels l (one per
// position, see Labels). With p the softmax of x along softmax_param.axis,
//   top[0] = 1/Z sum over positions of -v[l] log max(p[l], FLT_MIN)
//   dE/dx[c] = w/Z v[l] (p[c] - [c = l]),   w = dE/dtop[0] (the loss weight)
// v is 1, or with weight_by_label_freqs (SegNet) loss_param.class_weighting, a number per class.
// Positions with loss_param.ignore_label count neither in the sum nor in the gradient. Z: see
// loss_normalization.h; the default is VALID.
// top[1] (optional) is p; no gradient flows back from it.
//
// SoftmaxWithLossOHEM (R-FCN) is the same, and its top[2] (optional) has the term of the sum of
// each position, in the shape of the labels and without a gradient.
#ifndef MILLRACE_NN_LAYERS_SOFTMAX_WITH_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_SOFTMAX_WITH_LOSS_LAYER_H_

#include <optional>

#include "millrace/layer.h"
#include "nn/layers/labels.h"
#include "nn/layers/loss_kernels.h"
#include "nn/layers/softmax_layer.h"

namespace millrace::inline nn {

class SoftmaxWithLossLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, type() == "SoftmaxWithLossOHEM" ? 3 : 2}; }
  std::set<std::string> fields() const override { return {"softmax_param", "loss_param"}; }
  float DefaultLossWeight(int top) const override { return top == 0 ? 1 : 0; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }
  bool AutoTop() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;

 protected:
  // Whether Z depends on the number of positions that are not ignored.
  bool counts_valid() const { return normalizer_of_.by_counted; }
  // Returns Z for `valid` positions that are not ignored.
  double Normalizer(int64_t valid) const;

  // v in the memory of the device; null if it is 1.
  const float* class_weights() const {
    return class_weights_.count() > 0 ? class_weights_.data() : nullptr;
  }

  AxisView view_;
  std::optional<Labels> labels_;
  Blob probability_{memory()};

 private:
  Blob class_weights_{Shape{0}, memory()};
  LossNormalizer normalizer_of_{};
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SOFTMAX_WITH_LOSS_LAYER_H_
