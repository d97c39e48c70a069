#include "nn/layers/dice_loss_layer.h"

#include "nn/layers/dice_loss_kernels.h"

namespace millrace::inline nn {

namespace {

DiceTerms TermsOf(const caffe::LossParameter& loss, const Blobs& bottom) {
  return {loss.has_ignore_label(), static_cast<float>(loss.ignore_label()), bottom[0]->data(),
          bottom[1]->data()};
}

}  // namespace

void DiceLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckSameCount(bottom, 1);
  ratio_.Reshape({2});
  ReshapeLoss(top, bottom[0]->count());
}

void DiceLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.EnqueueParts(*context_.queue, TermsOf(param_.loss_param(), bottom));
  Launch(*context_.queue, 1, DiceOfParts{sum_.parts(), sum_.sums(), ratio_.data(), top[0]->data()});
}

void DiceLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                             const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         DiceBackward{TermsOf(param_.loss_param(), bottom), top[0]->diff(), ratio_.data(),
                      bottom[0]->diff()});
}

namespace {
const RegisterLayer<DiceLossLayer> registered("DiceLoss");
}

}  // namespace millrace::inline nn
