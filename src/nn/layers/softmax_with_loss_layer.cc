#include "nn/layers/softmax_with_loss_layer.h"

#include <algorithm>

#include "nn/layers/loss_normalization.h"

namespace millrace::inline nn {

void SoftmaxWithLossLayer::SetUp(const Blobs&, const Blobs&) {
  const caffe::LossParameter& loss = param_.loss_param();
  labels_.emplace(name(), IgnoredLabelOf(loss));
  normalization_ = NormalizationOf(loss, caffe::LossParameter::VALID);
}

void SoftmaxWithLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  view_ = AxisView(*bottom[0], param_.softmax_param().axis(), "softmax_param.axis");
  labels_->CheckShape(*bottom[1], view_);
  probability_.ReshapeLike(*bottom[0]);
  top[0]->Reshape({});
  if (top.size() > 1) top[1]->ReshapeLike(*bottom[0]);
}

double SoftmaxWithLossLayer::Normalizer(int64_t valid) const {
  int64_t normalizer = 1;
  switch (normalization_) {
    case caffe::LossParameter::FULL:
      normalizer = view_.outer * view_.inner;
      break;
    case caffe::LossParameter::VALID:
      normalizer = valid;
      break;
    case caffe::LossParameter::BATCH_SIZE:
      normalizer = view_.outer;
      break;
    case caffe::LossParameter::NONE:
      break;
  }
  // The loss of a batch whose labels are all ignored is 0, not NaN.
  return static_cast<double>(std::max<int64_t>(normalizer, 1));
}

}  // namespace millrace::inline nn
