// Losses of differences between two bottoms.
#include "nn/layers/loss/difference_loss_kernels.h"
#include "nn/layers/loss/loss_layer.h"

namespace millrace::inline nn {
namespace {

// Half the mean squared distance of two blobs with N examples:
//   top[0] = 1/(2N) sum over all values of (a - b)^2
//   dE/da = w/N (a - b),   dE/db = -dE/da,   w = dE/dtop[0]
// Bottoms: a, b. They have the same number of examples and of values per example. Both have a
// gradient.
class EuclideanLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  bool AllowBackward(int bottom) const override { return (void)bottom, true; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
};

void EuclideanLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckSameCount(bottom, 1);
  ReshapeLoss(top, bottom[0]->count());
}

void EuclideanLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, EuclideanTerms{bottom[0]->data(), bottom[1]->data()},
               {false, 2 * static_cast<float>(bottom[0]->dim(0))}, top[0]->data());
}

void EuclideanLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                  const Blobs& bottom) {
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    Launch(*context_.queue, bottom[i]->count(),
           EuclideanBackward{sum_.Scale(top[0]->diff()), i == 0 ? 2.0f : -2.0f, bottom[0]->data(),
                             bottom[1]->data(), bottom[i]->diff()});
  }
}

const RegisterLayer<EuclideanLossLayer> euclidean_loss("EuclideanLoss");

// Contrastive loss of N pairs (a, b) of vectors (Hadsell, Chopra, LeCun 2006). With d = |a - b| and
// margin m,
//   top[0] = 1/(2N) sum over the pairs of
//     d^2                  for a similar pair, whose label is not 0 after truncation
//     max(m - d, 0)^2      for another pair
//     max(m - d^2, 0)      for another pair with legacy_version
//   dE/da = w/N f (a - b),   dE/db = -dE/da,   w = dE/dtop[0]
//     f = 1,  -max(m - d, 0) / (d + 1e-4),  -[m > d^2]   in these cases
// Bottoms: a, b {N, C} or {N, C, 1, 1}, labels (one per pair).
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

ContrastiveTerms TermsOf(const caffe::ContrastiveLossParameter& param, const float* distance_sq,
                         const float* similar) {
  return {param.margin(), param.legacy_version(), distance_sq, similar};
}

void ContrastiveLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const int64_t pairs = Examples(bottom);
  for (int i = 0; i < 2; ++i) {
    if (bottom[i]->num_axes() < 3 || bottom[i]->count(2) == 1) continue;
    throw FieldError(StrCat("bottom[", i, "]"), "has shape ", ShapeText(bottom[i]->shape()),
                     ", expected one vector per example: only the first two axes may exceed 1");
  }
  CheckSameCount(bottom, 1);
  if (Examples(bottom, 2) != bottom[2]->count()) {
    throw FieldError("bottom[2]", "has shape ", ShapeText(bottom[2]->shape()), ", expected ", pairs,
                     " labels: one for each pair");
  }
  distance_sq_.Reshape({pairs});
  ReshapeLoss(top, pairs);
}

void ContrastiveLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  const int64_t pairs = bottom[0]->dim(0);
  Launch(*context_.queue, pairs,
         PairDistances{bottom[0]->count(1), bottom[0]->data(), bottom[1]->data(),
                       distance_sq_.data()});
  sum_.Enqueue(*context_.queue,
               TermsOf(param_.contrastive_loss_param(), distance_sq_.data(), bottom[2]->data()),
               {false, 2 * static_cast<float>(pairs)}, top[0]->data());
}

void ContrastiveLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                    const Blobs& bottom) {
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    Launch(*context_.queue, bottom[i]->count(),
           ContrastiveBackward{
               sum_.Scale(top[0]->diff()),
               TermsOf(param_.contrastive_loss_param(), distance_sq_.data(), bottom[2]->data()),
               bottom[0]->count(1), i == 0 ? 1.0f : -1.0f, bottom[0]->data(), bottom[1]->data(),
               bottom[i]->diff()});
  }
}

const RegisterLayer<ContrastiveLossLayer> contrastive_loss("ContrastiveLoss");

}  // namespace
}  // namespace millrace::inline nn
