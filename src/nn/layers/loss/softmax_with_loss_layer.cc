// Multinomial logistic loss of the softmax of the scores. Bottoms: scores x, labels l (one per
// position, see Labels). With p the softmax of x along softmax_param.axis,
//   top[0] = 1/Z sum over positions of -v[l] log max(p[l], FLT_MIN)
//   dE/dx[c] = w/Z v[l] (p[c] - [c = l]),   w = dE/dtop[0] (the loss weight)
// v is 1, or with weight_by_label_freqs (SegNet) loss_param.class_weighting, a number per class.
// Positions with loss_param.ignore_label count neither in the sum nor in the gradient. Z: see
// loss_normalization.h; the default is VALID.
// top[1] (optional) is p; no gradient flows back from it.
//
// SoftmaxWithLossOHEM (R-FCN) is the same, and its top[2] (optional) has the term of the sum of
// each position, in the shape of the labels and without a gradient.
#include <glog/logging.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <optional>

#include "millrace/layer.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/activation/softmax_layer.h"
#include "nn/layers/lanes.h"
#include "nn/layers/loss/labels.h"
#include "nn/layers/loss/loss_kernels.h"
#include "nn/layers/loss/loss_normalization.h"
#include "nn/layers/loss/position_results_gpu.h"

namespace millrace::inline nn {
namespace {

class SoftmaxWithLossLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, type() == "SoftmaxWithLossOHEM" ? 3 : 2}; }
  std::set<std::string> fields() const override { return {"softmax_param", "loss_param"}; }
  float DefaultLossWeight(int top) const override { return top == 0 ? 1 : 0; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }
  bool AutoTop() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;

 protected:
  // Whether Z depends on the number of positions that are not ignored.
  bool counts_valid() const { return normalizer_of_.by_counted; }
  // Returns Z for `valid` positions that are not ignored.
  double Normalizer(int64_t valid) const;

  // v in the memory of the device; null if it is 1.
  const float* class_weights() const {
    return class_weights_.count() > 0 ? class_weights_.data() : nullptr;
  }

  AxisView view_;
  std::optional<Labels> labels_;
  Blob probability_{memory()};

 private:
  Blob class_weights_{Shape{0}, memory()};
  LossNormalizer normalizer_of_{};
};

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

class SoftmaxWithLossLayerCpu : public SoftmaxWithLossLayer {
 public:
  using SoftmaxWithLossLayer::SoftmaxWithLossLayer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    float* probability = probability_.data();
    SoftmaxCpu(view_, bottom[0]->data(), probability);
    const float* labels = bottom[1]->data();
    const float* weights = class_weights();
    float* losses = top.size() > 2 ? top[2]->data() : nullptr;
    double loss = 0;
    int64_t valid = 0;
    for (int64_t i = 0; i < view_.outer; ++i) {
      for (int64_t j = 0; j < view_.inner; ++j) {
        const int64_t label = labels_->Class(labels, view_, i, j);
        if (losses != nullptr) losses[i * view_.inner + j] = 0;
        if (label == Labels::kIgnored) continue;
        const float p = probability[(i * view_.classes + label) * view_.inner + j];
        // With this order of arguments, std::max returns a NaN probability.
        const float term = -std::log(std::max(p, FLT_MIN)) * (weights ? weights[label] : 1.0f);
        if (losses != nullptr) losses[i * view_.inner + j] = term;
        loss += term;
        ++valid;
      }
    }
    normalizer_ = Normalizer(valid);
    top[0]->data()[0] = static_cast<float>(loss / normalizer_);
    if (top.size() > 1) std::copy_n(probability, probability_.count(), top[1]->data());
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    CHECK(!propagate_down[1]) << "no gradient flows to labels";
    if (!propagate_down[0]) return;
    const float* probability = probability_.data();
    const float* labels = bottom[1]->data();
    const float* weights = class_weights();
    float* diff = bottom[0]->diff();
    const float scale = static_cast<float>(top[0]->diff()[0] / normalizer_);
    ForEachLane(probability_.count(), [=](int64_t k) { diff[k] = scale * probability[k]; });
    for (int64_t i = 0; i < view_.outer; ++i) {
      for (int64_t j = 0; j < view_.inner; ++j) {
        float* position = diff + i * view_.classes * view_.inner + j;
        const int64_t label = labels_->Class(labels, view_, i, j);
        const float weight = label == Labels::kIgnored ? 0 : weights ? weights[label] : 1.0f;
        if (label != Labels::kIgnored) position[label * view_.inner] -= scale;
        if (weight == 1) continue;
        for (int64_t c = 0; c < view_.classes; ++c) {
          position[c * view_.inner] = weight == 0 ? 0 : weight * position[c * view_.inner];
        }
      }
    }
  }

 private:
  double normalizer_ = 1;  // of the last Forward
};

const RegisterLayer<SoftmaxWithLossLayerCpu> softmax_with_loss_layer_cpu("SoftmaxWithLoss",
                                                                         DeviceType::kCpu);
const RegisterLayer<SoftmaxWithLossLayerCpu> ohem_cpu("SoftmaxWithLossOHEM", DeviceType::kCpu);

class SoftmaxWithLossGpu : public SoftmaxWithLossLayer {
 public:
  using SoftmaxWithLossLayer::SoftmaxWithLossLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    SoftmaxWithLossLayer::Reshape(bottom, top);
    results_.Reserve(view_, *context_.queue);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    Queue& queue = *context_.queue;
    const ClassesOfRow view{view_.classes, view_.inner};
    float* const probability = probability_.data();
    Launch(queue, results_.positions(), SoftmaxForward{view, bottom[0]->data(), probability});
    Launch(queue, results_.positions(),
           LossOfPositions{view, LabelsForKernels(*labels_, view_), probability, bottom[1]->data(),
                           class_weights(), results_.results(),
                           top.size() > 2 ? top[2]->data() : nullptr});
    results_.Mean(queue, counts_valid(), static_cast<float>(Normalizer(1)), top[0]->data());
    if (top.size() > 1) {
      queue.Copy(top[1]->data(), probability, probability_.count() * sizeof(float));
    }
  }

  void CheckForward(const Blobs& bottom) override { results_.Check(*labels_, view_, *bottom[1]); }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    CHECK(!propagate_down[1]) << "no gradient flows to labels";
    if (!propagate_down[0]) return;
    Launch(*context_.queue, probability_.count(),
           SoftmaxLossBackward{{view_.classes, view_.inner},
                               LabelsForKernels(*labels_, view_),
                               probability_.data(),
                               bottom[1]->data(),
                               class_weights(),
                               results_.totals(),
                               top[0]->diff(),
                               bottom[0]->diff()});
  }

 private:
  PositionResultsGpu results_;
};

const RegisterGpuLayer<SoftmaxWithLossGpu> softmax_with_loss_layer_gpu("SoftmaxWithLoss");
const RegisterGpuLayer<SoftmaxWithLossGpu> ohem_gpu("SoftmaxWithLossOHEM");

}  // namespace
}  // namespace millrace::inline nn
