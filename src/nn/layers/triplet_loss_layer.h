// Triplet loss (Schroff, Kalenichenko, Philbin 2015), as in the forks for face recognition: an
// example must be closer to one of its own class than to one of another class, by a margin. With
// N triplets of features, an anchor a, a positive p and a negative n,
//   top[0] = 1/(2N) sum over the triplets of max(0, margin + |a - p|^2 - |a - n|^2)
//   dE/da = w/N (n - p),  dE/dp = w/N (p - a),  dE/dn = w/N (a - n)   where the maximum is not 0
// with w = dE/dtop[0]. margin: triplet_loss_param.margin, in other forks alpha.
// Bottoms: anchors, positives, negatives, with as many values. Forks that pick the triplets of a
// batch by its labels, or weigh them by a fourth bottom, are not followed.
#ifndef MILLRACE_NN_LAYERS_TRIPLET_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_TRIPLET_LOSS_LAYER_H_

#include "nn/layers/loss_layer.h"

namespace millrace::inline nn {

class TripletLossLayer : public LossLayer {
 public:
  TripletLossLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : LossLayer(param, context), gap_(memory()) {}

  Arity arity() const override { return {3, 3, 1, 1}; }
  std::set<std::string> fields() const override { return {"triplet_loss_param"}; }
  bool AllowBackward(int) const override { return true; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  float margin_ = 0;
  int64_t features_ = 0;  // of an example
  Blob gap_;              // of each triplet (triplet_loss_kernels.h)
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_TRIPLET_LOSS_LAYER_H_
