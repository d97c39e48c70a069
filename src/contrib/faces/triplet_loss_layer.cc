// Triplet loss (Schroff, Kalenichenko, Philbin 2015), as in the forks for face recognition: an
// example must be closer to one of its own class than to one of another class, by a margin. With
// N triplets of features, an anchor a, a positive p and a negative n,
//   top[0] = 1/(2N) sum over the triplets of max(0, margin + |a - p|^2 - |a - n|^2)
//   dE/da = w/N (n - p),  dE/dp = w/N (p - a),  dE/dn = w/N (a - n)   where the maximum is not 0
// with w = dE/dtop[0]. margin: triplet_loss_param.margin, in other forks alpha.
// Bottoms: anchors, positives, negatives, with as many values. Forks that pick the triplets of a
// batch by its labels, or weigh them by a fourth bottom, are not followed.
#include <algorithm>
#include <cmath>

#include "contrib/faces/distance_kernels.h"
#include "nn/layers/loss/loss_layer.h"

namespace millrace::inline contrib {
namespace {

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
  Blob gap_;              // of each triplet (distance_kernels.h)
};

void TripletLossLayer::SetUp(const Blobs&, const Blobs&) {
  const caffe::TripletLossParameter& param = param_.triplet_loss_param();
  if (param.has_margin() && param.has_alpha()) {
    throw FieldError("triplet_loss_param.alpha",
                     "given beside margin, expected one of these names of the margin");
  }
  margin_ = param.has_alpha() ? param.alpha() : param.margin();
  if (!std::isfinite(margin_)) {
    throw FieldError(param.has_alpha() ? "triplet_loss_param.alpha" : "triplet_loss_param.margin",
                     margin_, " given, expected a finite number");
  }
}

void TripletLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  for (size_t i = 1; i < bottom.size(); ++i) CheckSameCount(bottom, i);
  const int64_t triplets = bottom[0]->dim(0);
  features_ = bottom[0]->count(1);
  gap_.Reshape({triplets});
  ReshapeLoss(top, triplets);
}

void TripletLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  const int64_t triplets = gap_.count();
  Launch(queue, triplets,
         TripletGap{
             {bottom[0]->data(), bottom[1]->data(), bottom[2]->data()}, features_, gap_.data()});
  sum_.Enqueue(queue, TripletTerms{margin_, gap_.data()}, {false, 2 * static_cast<float>(triplets)},
               top[0]->data());
}

void TripletLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                const Blobs& bottom) {
  // The gradient of bottom i is that of plus - minus; 0, 1, 2: anchor, positive, negative.
  constexpr struct { int plus, minus; } kParts[] = {{2, 1}, {1, 0}, {0, 2}};
  for (int i = 0; i < 3; ++i) {
    if (!propagate_down[i]) continue;
    Launch(*context_.queue, bottom[i]->count(),
           TripletBackward{sum_.Scale(top[0]->diff()),
                           {margin_, gap_.data()},
                           features_,
                           bottom[kParts[i].plus]->data(),
                           bottom[kParts[i].minus]->data(),
                           bottom[i]->diff()});
  }
}

const RegisterLayer<TripletLossLayer> triplet_loss_layer("TripletLoss");

}  // namespace
}  // namespace millrace::inline contrib
