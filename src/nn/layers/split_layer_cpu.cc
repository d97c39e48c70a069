#include <algorithm>

#include "nn/layers/lanes.h"
#include "nn/layers/split_layer.h"

namespace millrace::inline nn {
namespace {

class SplitLayerCpu : public SplitLayer {
 public:
  using SplitLayer::SplitLayer;

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    // A top without a diff has a consumer that computes no gradient (Accuracy).
    std::vector<const float*> parts;
    for (const Blob* blob : top) {
      if (blob->has_diff()) parts.push_back(blob->diff());
    }
    const int64_t count = bottom[0]->count();
    float* sum = bottom[0]->diff();
    if (parts.empty()) {
      std::fill_n(sum, count, 0.0f);
    } else if (parts.size() == 1) {
      std::copy_n(parts[0], count, sum);
    } else {
      const float* first = parts[0];
      for (size_t i = 1; i < parts.size(); ++i) {
        const float* second = parts[i];
        ForEachLane(count, [=](int64_t k) { sum[k] = first[k] + second[k]; });
        first = sum;
      }
    }
  }
};

const RegisterLayer<SplitLayerCpu> registered("Split", DeviceType::kCpu);

}  // namespace
}  // namespace millrace::inline nn
