#include "nn/layers/sigmoid_cross_entropy_loss_layer.h"

#include "nn/layers/loss_normalization.h"
#include "nn/layers/sigmoid_cross_entropy_loss_kernels.h"

namespace millrace::inline nn {

namespace {

SigmoidCrossEntropyTerms TermsOf(const caffe::LossParameter& loss, const Blobs& bottom) {
  return {loss.has_ignore_label(), static_cast<float>(loss.ignore_label()), bottom[0]->data(),
          bottom[1]->data()};
}

}  // namespace

void SigmoidCrossEntropyLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckSameCount(bottom, 1);
  normalizer_ = NormalizerOf(param_.loss_param(), caffe::LossParameter::BATCH_SIZE,
                             bottom[0]->dim(0), bottom[0]->count(1));
  ReshapeLoss(top, bottom[0]->count());
}

void SigmoidCrossEntropyLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, TermsOf(param_.loss_param(), bottom), normalizer_, top[0]->data());
}

void SigmoidCrossEntropyLossLayer::Backward(const Blobs& top,
                                            const std::vector<bool>& propagate_down,
                                            const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         SigmoidCrossEntropyBackward{sum_.Scale(top[0]->diff()),
                                     TermsOf(param_.loss_param(), bottom), bottom[0]->diff()});
}

namespace {
const RegisterLayer<SigmoidCrossEntropyLossLayer> registered("SigmoidCrossEntropyLoss");
}

}  // namespace millrace::inline nn
