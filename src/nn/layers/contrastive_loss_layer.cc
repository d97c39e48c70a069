#include "nn/layers/contrastive_loss_layer.h"

#include "nn/layers/contrastive_loss_kernels.h"

namespace millrace::inline nn {

namespace {

ContrastiveTerms TermsOf(const caffe::ContrastiveLossParameter& param, const float* distance_sq,
                         const float* similar) {
  return {param.margin(), param.legacy_version(), distance_sq, similar};
}

}  // namespace

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

namespace {
const RegisterLayer<ContrastiveLossLayer> registered("ContrastiveLoss");
}

}  // namespace millrace::inline nn
