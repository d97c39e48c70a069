// The fraction of positions whose label is among the top_k best scores. Bottoms: scores, labels
// (one per position, see Labels); classes along accuracy_param.axis.
//   top[0] = correct / counted positions         (0 if none is counted)
//   top[1], optional: the same for each class    (0 for a class without labels)
// A position is correct if fewer than top_k other classes score at least as much as the label does.
// Ties and NaN scores therefore count against the label. Positions with accuracy_param.ignore_label
// are not counted.
#include <glog/logging.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "millrace/layer.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/activation/softmax_layer.h"
#include "nn/layers/loss/labels.h"
#include "nn/layers/loss/position_results_gpu.h"

namespace millrace::inline nn {
namespace {

class AccuracyLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 2}; }
  std::set<std::string> fields() const override { return {"accuracy_param"}; }
  bool AllowBackward(int bottom) const override { return (void)bottom, false; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // An accuracy has no gradient. Every propagate_down must be false.
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 protected:
  AxisView view_;
  std::optional<Labels> labels_;
  int64_t top_k_ = 1;
};

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

class AccuracyLayerCpu : public AccuracyLayer {
 public:
  using AccuracyLayer::AccuracyLayer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    const float* scores = bottom[0]->data();
    const float* labels = bottom[1]->data();
    right_.assign(view_.classes, 0);
    counted_.assign(view_.classes, 0);
    for (int64_t i = 0; i < view_.outer; ++i) {
      for (int64_t j = 0; j < view_.inner; ++j) {
        const int64_t label = labels_->Class(labels, view_, i, j);
        if (label == Labels::kIgnored) continue;
        ++counted_[label];
        right_[label] += IsRight(scores + i * view_.classes * view_.inner + j, label);
      }
    }
    int64_t right = 0, counted = 0;
    for (int64_t c = 0; c < view_.classes; ++c) {
      right += right_[c];
      counted += counted_[c];
      if (top.size() > 1) top[1]->data()[c] = Fraction(right_[c], counted_[c]);
    }
    top[0]->data()[0] = Fraction(right, counted);
  }

 private:
  // `scores` points to the first class of one position; classes are view_.inner apart.
  bool IsRight(const float* scores, int64_t label) const {
    const float own = scores[label * view_.inner];
    int64_t not_worse = -1;  // the loop also counts the label itself
    for (int64_t c = 0; c < view_.classes; ++c) not_worse += !(scores[c * view_.inner] < own);
    return not_worse < top_k_;
  }

  static float Fraction(int64_t part, int64_t whole) {
    return whole == 0 ? 0 : static_cast<float>(static_cast<double>(part) / whole);
  }

  std::vector<int64_t> right_, counted_;  // per class
};

const RegisterLayer<AccuracyLayerCpu> accuracy_layer_cpu("Accuracy", DeviceType::kCpu);

class AccuracyGpu : public AccuracyLayer {
 public:
  using AccuracyLayer::AccuracyLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    AccuracyLayer::Reshape(bottom, top);
    results_.Reserve(view_, *context_.queue);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    Queue& queue = *context_.queue;
    const KernelLabels labels = LabelsForKernels(*labels_, view_);
    Launch(queue, results_.positions(),
           RightPositions{{view_.classes, view_.inner},
                          labels,
                          top_k_,
                          bottom[0]->data(),
                          bottom[1]->data(),
                          results_.results()});
    results_.Mean(queue, true, 0, top[0]->data());
    if (top.size() > 1) {
      Launch(queue, view_.classes,
             MeanOfClasses{results_.positions(), labels, bottom[1]->data(), results_.results(),
                           top[1]->data()});
    }
  }

  void CheckForward(const Blobs& bottom) override { results_.Check(*labels_, view_, *bottom[1]); }

 private:
  PositionResultsGpu results_;
};

const RegisterGpuLayer<AccuracyGpu> accuracy_layer_gpu("Accuracy");

}  // namespace
}  // namespace millrace::inline nn
