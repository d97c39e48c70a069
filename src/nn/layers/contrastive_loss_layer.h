// Contrastive loss of N pairs (a, b) of vectors (Hadsell, Chopra, LeCun 2006). With d = |a - b| and
// margin m,
//   top[0] = 1/(2N) sum over the pairs of
//     d^2                  for a similar pair, whose label is not 0 after truncation
//     max(m - d, 0)^2      for another pair
//     max(m - d^2, 0)      for another pair with legacy_version
//   dE/da = w/N f (a - b),   dE/db = -dE/da,   w = dE/dtop[0]
//     f = 1,  -max(m - d, 0) / (d + 1e-4),  -[m > d^2]   in these cases
// Bottoms: a, b {N, C} or {N, C, 1, 1}, labels (one per pair).
#ifndef MILLRACE_NN_LAYERS_CONTRASTIVE_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_CONTRASTIVE_LOSS_LAYER_H_

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class ContrastiveLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  Arity arity() const override { return {3, 3, 1, 1}; }
  std::set<std::string> fields() const override { return {"contrastive_loss_param"}; }
  bool AllowBackward(int bottom) const override { return bottom != 2; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  Blob distance_sq_{memory()};  // d^2 of each pair in the last Forward
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONTRASTIVE_LOSS_LAYER_H_
