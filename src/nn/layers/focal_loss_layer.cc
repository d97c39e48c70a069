#include "nn/layers/focal_loss_layer.h"

#include "nn/layers/focal_loss_kernels.h"
#include "nn/layers/kernel_labels.h"
#include "nn/layers/loss_normalization.h"

namespace millrace::inline nn {

namespace {

FocalTerms TermsOf(const caffe::FocalLossParameter& param, const Labels& labels,
                   const AxisView& view, const float* label_data, const float* probability) {
  return {{LabelsForKernels(labels, view), label_data},
          {view.classes, view.inner},
          param.alpha(),
          param.gamma(),
          probability};
}

}  // namespace

void FocalLossLayer::SetUp(const Blobs&, const Blobs&) {
  const caffe::FocalLossParameter& param = param_.focal_loss_param();
  if (param.type() != caffe::FocalLossParameter::ORIGIN) {
    throw FieldError("focal_loss_param.type", "LINEAR given, expected ORIGIN");
  }
  if (!(param.gamma() >= 0)) {
    throw FieldError("focal_loss_param.gamma", param.gamma(), " given, expected at least 0");
  }
  if (!(param.alpha() >= 0)) {
    throw FieldError("focal_loss_param.alpha", param.alpha(), " given, expected at least 0");
  }
  labels_.emplace(name(), IgnoredLabelOf(param_.loss_param()));
}

void FocalLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  view_ = AxisView(*bottom[0], param_.softmax_param().axis(), "softmax_param.axis");
  labels_->CheckShape(*bottom[1], view_);
  probability_.ReshapeLike(*bottom[0]);
  ReshapeLoss(top, view_.outer * view_.inner);
  if (top.size() > 1) top[1]->ReshapeLike(*bottom[0]);
}

void FocalLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  float* const probability = probability_.data();
  Launch(queue, view_.outer * view_.inner,
         SoftmaxForward{{view_.classes, view_.inner}, bottom[0]->data(), probability});
  const LossNormalizer normalizer =
      NormalizerOf(param_.loss_param(), caffe::LossParameter::VALID, view_.outer, view_.inner);
  sum_.Enqueue(queue,
               TermsOf(param_.focal_loss_param(), *labels_, view_, bottom[1]->data(), probability),
               normalizer, top[0]->data());
  if (top.size() > 1) {
    queue.Copy(top[1]->data(), probability, probability_.count() * sizeof(float));
  }
}

void FocalLossLayer::CheckForward(const Blobs& bottom) {
  sum_.CheckLabels(*labels_, view_, *bottom[1]);
}

void FocalLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                              const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, view_.outer * view_.inner,
         FocalBackward{sum_.Scale(top[0]->diff()),
                       TermsOf(param_.focal_loss_param(), *labels_, view_, bottom[1]->data(),
                               probability_.data()),
                       bottom[0]->diff()});
}

namespace {
const RegisterLayer<FocalLossLayer> registered("FocalLoss");
}

}  // namespace millrace::inline nn
