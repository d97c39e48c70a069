#include "nn/layers/smooth_l1_loss_layer.h"

#include "nn/layers/smooth_l1_loss_kernels.h"

namespace millrace::inline nn {

namespace {

SmoothL1Terms TermsOf(const caffe::SmoothL1LossParameter& param, const Blobs& bottom) {
  const bool weighted = bottom.size() > 2;
  return {param.sigma() * param.sigma(), bottom[0]->data(), bottom[1]->data(),
          weighted ? bottom[2]->data() : nullptr, weighted ? bottom[3]->data() : nullptr};
}

}  // namespace

void SmoothL1LossLayer::SetUp(const Blobs& bottom, const Blobs&) {
  if (bottom.size() == 3) {
    throw FieldError("bottom", 3, " given, expected 2, or 4 with inside and outside weights");
  }
  const float sigma = param_.smooth_l1_loss_param().sigma();
  if (!(sigma != 0)) {
    throw FieldError("smooth_l1_loss_param.sigma", sigma, " given, expected a number other than 0");
  }
}

void SmoothL1LossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  for (size_t i = 1; i < bottom.size(); ++i) CheckSameCount(bottom, i);
  ReshapeLoss(top, bottom[0]->count());
}

void SmoothL1LossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, TermsOf(param_.smooth_l1_loss_param(), bottom),
               {false, static_cast<float>(bottom[0]->dim(0))}, top[0]->data());
}

void SmoothL1LossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                 const Blobs& bottom) {
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    Launch(
        *context_.queue, bottom[i]->count(),
        SmoothL1Backward{sum_.Scale(top[0]->diff()), TermsOf(param_.smooth_l1_loss_param(), bottom),
                         i == 0 ? 1.0f : -1.0f, bottom[i]->diff()});
  }
}

namespace {
const RegisterLayer<SmoothL1LossLayer> registered("SmoothL1Loss");
}

}  // namespace millrace::inline nn
