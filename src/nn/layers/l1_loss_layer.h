// The mean absolute error, as in NVIDIA/caffe, whose DetectNet has it. With N examples,
//   top[0] = 1/N sum over all values of |a - b|
//   dE/da = w/N sign(a - b),   dE/db = -dE/da,   w = dE/dtop[0]
// Bottoms: predictions a, targets b, with as many values.
#ifndef MILLRACE_NN_LAYERS_L1_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_L1_LOSS_LAYER_H_

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class L1LossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  bool AllowBackward(int) const override { return true; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_L1_LOSS_LAYER_H_
