#include "nn/layers/hinge_loss_layer.h"

#include "nn/layers/hinge_loss_kernels.h"

namespace millrace::inline nn {

namespace {

HingeTerms TermsOf(const AxisView& view, const caffe::HingeLossParameter& param,
                   const Blobs& bottom) {
  const KernelLabels labels_are{view.classes, false, 0};
  return {{{view.classes, view.inner}, labels_are, bottom[1]->data()},
          param.norm() == caffe::HingeLossParameter::L2,
          bottom[0]->data()};
}

}  // namespace

void HingeLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckOneLabelPerExample(bottom);
  view_.outer = bottom[0]->dim(0);
  view_.classes = bottom[0]->count(1);
  view_.inner = 1;
  ReshapeLoss(top, bottom[0]->count());
}

void HingeLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, TermsOf(view_, param_.hinge_loss_param(), bottom),
               {false, static_cast<float>(view_.outer)}, top[0]->data());
}

void HingeLossLayer::CheckForward(const Blobs& bottom) {
  sum_.CheckLabels(Labels(name(), {}), view_, *bottom[1]);
}

void HingeLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                              const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         HingeBackward{sum_.Scale(top[0]->diff()),
                       TermsOf(view_, param_.hinge_loss_param(), bottom), bottom[0]->diff()});
}

namespace {
const RegisterLayer<HingeLossLayer> registered("HingeLoss");
}

}  // namespace millrace::inline nn
