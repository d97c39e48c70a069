#include <glog/logging.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "nn/layers/lanes.h"
#include "nn/layers/softmax_with_loss_layer.h"

namespace millrace::inline nn {
namespace {

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

const RegisterLayer<SoftmaxWithLossLayerCpu> registered("SoftmaxWithLoss", DeviceType::kCpu);
const RegisterLayer<SoftmaxWithLossLayerCpu> ohem("SoftmaxWithLossOHEM", DeviceType::kCpu);

}  // namespace
}  // namespace millrace::inline nn
