#include "nn/layers/accuracy_layer.h"

#include <glog/logging.h>

#include <algorithm>

namespace millrace::inline nn {

void AccuracyLayer::SetUp(const Blobs&, const Blobs&) {
  const caffe::AccuracyParameter& accuracy = param_.accuracy_param();
  std::optional<int> ignored;
  if (accuracy.has_ignore_label()) ignored = accuracy.ignore_label();
  labels_.emplace(name(), ignored);
  top_k_ = accuracy.top_k();
  if (top_k_ < 1) {
    throw FieldError("accuracy_param.top_k", top_k_, " given, expected at least 1");
  }
}

void AccuracyLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  view_ = AxisView(*bottom[0], param_.accuracy_param().axis(), "accuracy_param.axis");
  if (top_k_ > view_.classes) {
    throw FieldError("accuracy_param.top_k", top_k_, " given, but there are only ", view_.classes,
                     " classes");
  }
  labels_->CheckShape(*bottom[1], view_);
  top[0]->Reshape({});
  if (top.size() > 1) top[1]->Reshape({view_.classes});
}

void AccuracyLayer::Backward(const Blobs&, const std::vector<bool>& propagate_down, const Blobs&) {
  CHECK(std::none_of(propagate_down.begin(), propagate_down.end(), [](bool asked) {
    return asked;
  })) << "an accuracy has no gradient";
}

}  // namespace millrace::inline nn
