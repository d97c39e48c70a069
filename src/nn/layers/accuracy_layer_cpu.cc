#include <algorithm>
#include <vector>

#include "nn/layers/accuracy_layer.h"

namespace millrace::inline nn {
namespace {

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

const RegisterLayer<AccuracyLayerCpu> registered("Accuracy", DeviceType::kCpu);

}  // namespace
}  // namespace millrace::inline nn
