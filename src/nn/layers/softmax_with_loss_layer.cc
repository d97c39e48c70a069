#include "nn/layers/softmax_with_loss_layer.h"

#include <algorithm>

#include "nn/layers/loss_normalization.h"

namespace millrace::inline nn {

void SoftmaxWithLossLayer::SetUp(const Blobs&, const Blobs&) {
  labels_.emplace(name(), IgnoredLabelOf(param_.loss_param()));
}

void SoftmaxWithLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::LossParameter& loss = param_.loss_param();
  view_ = AxisView(*bottom[0], param_.softmax_param().axis(), "softmax_param.axis");
  labels_->CheckShape(*bottom[1], view_);
  normalizer_of_ = NormalizerOf(loss, caffe::LossParameter::VALID, view_.outer, view_.inner);
  if (loss.weight_by_label_freqs() && class_weights_.count() == 0) {
    if (loss.class_weighting_size() != view_.classes) {
      throw FieldError("loss_param.class_weighting", loss.class_weighting_size(),
                       " given, expected ", view_.classes, ", one per class");
    }
    class_weights_.Reshape({view_.classes});
    class_weights_.CopyDataFromHost(loss.class_weighting().data());
  }
  probability_.ReshapeLike(*bottom[0]);
  top[0]->Reshape({});
  if (top.size() > 1) top[1]->ReshapeLike(*bottom[0]);
  if (top.size() > 2) top[2]->ReshapeLike(*bottom[1]);
}

double SoftmaxWithLossLayer::Normalizer(int64_t valid) const {
  // The loss of a batch whose labels are all ignored is 0, not NaN.
  if (counts_valid()) return static_cast<double>(std::max<int64_t>(valid, 1));
  return normalizer_of_.fixed;
}

}  // namespace millrace::inline nn
