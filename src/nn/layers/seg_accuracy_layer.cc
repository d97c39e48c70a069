#include "nn/layers/seg_accuracy_layer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "device/kernel.h"
#include "nn/layers/labels.h"
#include "nn/layers/seg_accuracy_kernels.h"

namespace millrace::inline nn {

void SegAccuracyLayer::SetUp(const Blobs& bottom, const Blobs&) {
  view_ = AxisView(*bottom[0], 1, "bottom[0]");
  if (view_.classes < 1 || view_.classes > std::numeric_limits<int32_t>::max()) {
    throw FieldError("bottom[0]", "has ", view_.classes, " classes, expected at least 1");
  }
  Queue& queue = *context_.queue;
  MemorySpace& staging = context_.device->staging();
  const auto& labels = param_.seg_accuracy_param().ignore_label();
  if (!labels.empty()) {
    const size_t bytes = labels.size() * sizeof(float);
    const Buffer ignored(staging, bytes);
    std::copy(labels.begin(), labels.end(), ignored.get<float>());
    ignored_ = Buffer(memory(), bytes);
    queue.CopyToDevice(ignored_.get(), ignored.get(), bytes);
    queue.Synchronize();  // `ignored` ends
  }
  counts_ = Buffer(memory(), view_.classes * sizeof(ClassCounts));
  queue.Fill(counts_.get(), 0, counts_.bytes());
  invalid_ = Buffer(memory(), sizeof(float));
  invalid_on_host_ = Buffer(staging, sizeof(float));
  *invalid_on_host_.get<float>() = 0;
}

void SegAccuracyLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const AxisView view(*bottom[0], 1, "bottom[0]");
  if (view.classes != view_.classes) {
    throw FieldError("bottom[0]", "has ", view.classes, " classes, expected ", view_.classes,
                     ", as when the net was built");
  }
  Labels(name(), {}).CheckShape(*bottom[1], view);
  view_ = view;
  const size_t bytes = view.outer * view.inner * sizeof(SegmentedPosition);
  if (positions_.bytes() < bytes) {
    context_.queue->Synchronize();  // work may use the old memory
    positions_ = Buffer(memory(), bytes);
  }
  top[0]->Reshape({1, 1, 1, 3});
}

void SegAccuracyLayer::Forward(const Blobs& bottom, const Blobs& top) {
  const caffe::SegAccuracyParameter& param = param_.seg_accuracy_param();
  Queue& queue = *context_.queue;
  const int64_t count = view_.outer * view_.inner;
  auto* const positions = positions_.get<SegmentedPosition>();
  auto* const counts = counts_.get<ClassCounts>();
  Launch(queue, count,
         PredictPositions{{view_.classes, view_.inner},
                          param.ignore_label_size(),
                          ignored_.get<float>(),
                          bottom[0]->data(),
                          bottom[1]->data(),
                          positions});
  Launch(queue, view_.classes, CountClasses{count, !param.reset(), positions, counts});
  Launch(queue, 1,
         SegAccuracyOfCounts{view_.classes, count, counts, positions, top[0]->data(),
                             invalid_.get<float>()});
  queue.CopyToHost(invalid_on_host_.get(), invalid_.get(), sizeof(float));
}

bool SegAccuracyLayer::IsIgnored(float label) const {
  for (const int ignored : param_.seg_accuracy_param().ignore_label()) {
    if (std::trunc(label) == static_cast<float>(ignored)) return true;
  }
  return false;
}

void SegAccuracyLayer::CheckForward(const Blobs& bottom) {
  if (!(*invalid_on_host_.get<float>() > 0)) return;
  std::vector<float> copy;
  const float* const labels = bottom[1]->DataOnHost(&copy);
  const Labels classes(name(), {});
  for (int64_t i = 0; i < view_.outer * view_.inner; ++i) {
    if (!IsIgnored(labels[i])) classes.Class(labels, view_, i / view_.inner, i % view_.inner);
  }
}

namespace {

const RegisterLayer<SegAccuracyLayer> registered("SegAccuracy");

}  // namespace
}  // namespace millrace::inline nn
