#include "nn/layers/smooth_l1_loss_layer.h"

#include <algorithm>

#include "nn/layers/loss_normalization.h"
#include "nn/layers/smooth_l1_loss_kernels.h"

namespace millrace::inline nn {

namespace {

SmoothL1Terms TermsOf(float sigma, const Blobs& bottom) {
  return {sigma * sigma, bottom[0]->data(), bottom[1]->data(),
          bottom.size() > 2 ? bottom[2]->data() : nullptr,
          bottom.size() > 3 ? bottom[3]->data() : nullptr};
}

}  // namespace

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

namespace {
const RegisterLayer<SmoothL1LossLayer> registered("SmoothL1Loss");
const RegisterLayer<SmoothL1LossLayer> registered_ohem("SmoothL1LossOHEM");
}  // namespace

}  // namespace millrace::inline nn
