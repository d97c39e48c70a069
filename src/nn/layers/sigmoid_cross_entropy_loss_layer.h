// Cross entropy of independent targets t in [0, 1] and the sigmoids of the scores x:
//   top[0] = 1/Z sum of -t log s - (1 - t) log(1 - s),   s = 1 / (1 + exp(-x))
//          = 1/Z sum of max(x, 0) - x t + log(1 + exp(-|x|))       (does not overflow)
//   dE/dx = w/Z (s - t),   w = dE/dtop[0]
// Bottoms: x, t, with the same number of values. Targets that are loss_param.ignore_label after
// truncation to a whole number count neither in the sum nor in the gradient. Z: see
// loss_normalization.h; a position is a value, the outer ones are the examples, and the default is
// BATCH_SIZE.
#ifndef MILLRACE_NN_LAYERS_SIGMOID_CROSS_ENTROPY_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_SIGMOID_CROSS_ENTROPY_LOSS_LAYER_H_

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class SigmoidCrossEntropyLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  std::set<std::string> fields() const override { return {"loss_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  LossNormalizer normalizer_{};
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SIGMOID_CROSS_ENTROPY_LOSS_LAYER_H_
