// Accuracies of a segmentation, as in DeepLab. Bottoms: scores {N, classes, ..}, labels (one per
// position, see Labels). The predicted class of a position is that of its best score, the last of
// equal ones. The top {1, 1, 1, 3} has, of the counted positions,
//   [0] right positions / positions                                           (0 if there are none)
//   [1] the mean over the classes that occur as labels of: right / positions with this label
//                                                                             (0 if there are none)
//   [2] the mean over all classes of: right / positions with this label or prediction
//                                                        (1 for a class that is neither: Caffe's)
// Positions with a seg_accuracy_param.ignore_label are not counted. Each batch is counted on its
// own; with `reset: false` all batches since the net was built are counted together. `metric` has
// no effect, as there.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "contrib/segmentation/seg_accuracy_kernels.h"
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/activation/softmax_layer.h"
#include "nn/layers/loss/labels.h"

namespace millrace::inline contrib {
namespace {

class SegAccuracyLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"seg_accuracy_param"}; }
  bool AllowBackward(int) const override { return false; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  // Accuracies have no gradient.
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  bool IsIgnored(float label) const;

  AxisView view_;
  Buffer ignored_;          // floats: the labels that are not counted
  Buffer positions_;        // a SegmentedPosition for each
  Buffer counts_;           // ClassCounts of each class
  Buffer invalid_;          // a float: the number of labels that are no classes
  Buffer invalid_on_host_;  // the same in staging memory
};

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

const RegisterLayer<SegAccuracyLayer> seg_accuracy_layer("SegAccuracy");

}  // namespace
}  // namespace millrace::inline contrib
