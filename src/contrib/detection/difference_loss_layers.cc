// Losses of distances between boxes: L1Loss and SmoothL1Loss.
#include <algorithm>

#include "contrib/detection/difference_loss_kernels.h"
#include "nn/layers/loss/loss_layer.h"
#include "nn/layers/loss/loss_normalization.h"

namespace millrace::inline contrib {
namespace {

// The mean absolute error, as in NVIDIA/caffe, whose DetectNet has it. With N examples,
//   top[0] = 1/N sum over all values of |a - b|
//   dE/da = w/N sign(a - b),   dE/db = -dE/da,   w = dE/dtop[0]
// Bottoms: predictions a, targets b, with as many values.
class L1LossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  bool AllowBackward(int) const override { return true; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
};

void L1LossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckSameCount(bottom, 1);
  ReshapeLoss(top, bottom[0]->count());
}

void L1LossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, L1Terms{bottom[0]->data(), bottom[1]->data()},
               {false, static_cast<float>(bottom[0]->dim(0))}, top[0]->data());
}

void L1LossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                           const Blobs& bottom) {
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    Launch(*context_.queue, bottom[i]->count(),
           DifferenceBackward<L1Terms>{sum_.Scale(top[0]->diff()),
                                       {bottom[0]->data(), bottom[1]->data()},
                                       i == 0 ? 1.0f : -1.0f,
                                       bottom[i]->diff()});
  }
}

const RegisterLayer<L1LossLayer> l1_loss("L1Loss");

// Smooth L1 loss of Fast R-CNN (Girshick 2015), as in rbgirshick/caffe-fast-rcnn. With
// N examples, s = smooth_l1_loss_param.sigma and d = inside (a - b),
//   top[0] = 1/N sum over all values of outside f(d)
//   f(d) = s^2 d^2 / 2 if |d| < 1/s^2, else |d| - 1/(2 s^2)
//   dE/da = w/N inside outside f'(d),   dE/db = -dE/da,   w = dE/dtop[0]
// Bottoms: predictions a, targets b, and none, the inside, or the inside and the outside weights
// (the first version of Fast R-CNN has the inside weights alone); all have as many values. Weights
// have no gradient.
//
// SmoothL1LossOHEM (R-FCN) has s = 1, at most the inside weights, and divides by the Z of
// loss_param.normalization in place of N: examples times places for FULL and VALID, which is the
// default; loss_normalization.h has the others. Its top[1] (optional) is the sum over the
// channels, per example and place, without the division; no gradient flows back from it.
class SmoothL1LossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  Arity arity() const override { return ohem() ? Arity{2, 3, 1, 2} : Arity{2, 4, 1, 1}; }
  std::set<std::string> fields() const override {
    return {ohem() ? "loss_param" : "smooth_l1_loss_param"};
  }
  bool AllowBackward(int bottom) const override { return bottom < 2; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  bool ohem() const { return type() == "SmoothL1LossOHEM"; }
  float sigma() const { return ohem() ? 1.0f : param_.smooth_l1_loss_param().sigma(); }

  LossNormalizer normalizer_{};
  int64_t channels_ = 1, places_ = 1;  // of each example, for top[1]
};

SmoothL1Terms TermsOf(float sigma, const Blobs& bottom) {
  return {sigma * sigma, bottom[0]->data(), bottom[1]->data(),
          bottom.size() > 2 ? bottom[2]->data() : nullptr,
          bottom.size() > 3 ? bottom[3]->data() : nullptr};
}

void SmoothL1LossLayer::SetUp(const Blobs&, const Blobs&) {
  if (!(sigma() != 0)) {
    throw FieldError("smooth_l1_loss_param.sigma", sigma(),
                     " given, expected a number other than 0");
  }
}

void SmoothL1LossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  for (size_t i = 1; i < bottom.size(); ++i) CheckSameCount(bottom, i);
  ReshapeLoss(top, bottom[0]->count());
  normalizer_ = {false, static_cast<float>(bottom[0]->dim(0))};
  if (!ohem()) return;
  Shape shape = bottom[0]->shape();
  if (shape.size() < 2) {
    throw FieldError("bottom", "has shape ", ShapeText(shape), ", expected examples and channels");
  }
  channels_ = shape[1];
  places_ = bottom[0]->count(2);
  normalizer_ = NormalizerOf(param_.loss_param(), caffe::LossParameter::VALID, shape[0], places_);
  if (normalizer_.by_counted) {
    normalizer_ = {false, static_cast<float>(std::max<int64_t>(shape[0] * places_, 1))};
  }
  shape.resize(std::max<size_t>(shape.size(), 4), 1);
  shape[1] = 1;
  if (top.size() > 1) top[1]->Reshape(shape);
}

void SmoothL1LossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  const SmoothL1Terms terms = TermsOf(sigma(), bottom);
  sum_.Enqueue(*context_.queue, terms, normalizer_, top[0]->data());
  if (top.size() < 2) return;
  Launch(*context_.queue, top[1]->count(),
         SmoothL1OfPlaces{terms, channels_, places_, top[1]->data()});
}

void SmoothL1LossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                 const Blobs& bottom) {
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    Launch(*context_.queue, bottom[i]->count(),
           DifferenceBackward<SmoothL1Terms>{sum_.Scale(top[0]->diff()), TermsOf(sigma(), bottom),
                                             i == 0 ? 1.0f : -1.0f, bottom[i]->diff()});
  }
}

const RegisterLayer<SmoothL1LossLayer> smooth_l1_loss("SmoothL1Loss");
const RegisterLayer<SmoothL1LossLayer> registered_ohem("SmoothL1LossOHEM");

}  // namespace
}  // namespace millrace::inline contrib
