// Half the mean squared distance of two blobs with N examples:
//   top[0] = 1/(2N) sum over all values of (a - b)^2
//   dE/da = w/N (a - b),   dE/db = -dE/da,   w = dE/dtop[0]
// Bottoms: a, b. They have the same number of examples and of values per example. Both have a
// gradient.
#ifndef MILLRACE_NN_LAYERS_EUCLIDEAN_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_EUCLIDEAN_LOSS_LAYER_H_

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class EuclideanLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  bool AllowBackward(int bottom) const override { return (void)bottom, true; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_EUCLIDEAN_LOSS_LAYER_H_
