#include "nn/layers/multinomial_logistic_loss_layer.h"

#include "nn/layers/multinomial_logistic_loss_kernels.h"

namespace millrace::inline nn {

namespace {

MultinomialLogisticTerms TermsOf(const AxisView& view, const Blobs& bottom) {
  return {{{view.classes, false, 0}, bottom[1]->data()}, bottom[0]->data()};
}

}  // namespace

void MultinomialLogisticLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckOneLabelPerExample(bottom);
  view_.outer = bottom[0]->dim(0);
  view_.classes = bottom[0]->count(1);
  view_.inner = 1;
  ReshapeLoss(top, view_.outer);
}

void MultinomialLogisticLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, TermsOf(view_, bottom), {false, static_cast<float>(view_.outer)},
               top[0]->data());
}

void MultinomialLogisticLossLayer::CheckForward(const Blobs& bottom) {
  sum_.CheckLabels(Labels(name(), {}), view_, *bottom[1]);
}

void MultinomialLogisticLossLayer::Backward(const Blobs& top,
                                            const std::vector<bool>& propagate_down,
                                            const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         MultinomialLogisticBackward{sum_.Scale(top[0]->diff()), TermsOf(view_, bottom),
                                     bottom[0]->diff()});
}

namespace {
const RegisterLayer<MultinomialLogisticLossLayer> registered("MultinomialLogisticLoss");
}

}  // namespace millrace::inline nn
