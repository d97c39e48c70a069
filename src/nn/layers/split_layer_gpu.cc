#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/split_kernels.h"
#include "nn/layers/split_layer.h"

namespace millrace::inline nn {
namespace {

class SplitGpu : public SplitLayer {
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
    Queue& queue = *context_.queue;
    float* const sum = bottom[0]->diff();
    const int64_t count = bottom[0]->count();
    if (parts.empty()) return queue.Fill(sum, 0, count * sizeof(float));
    if (parts.size() == 1) return queue.Copy(sum, parts[0], count * sizeof(float));
    for (size_t i = 1; i < parts.size(); ++i) {
      Launch(queue, count, SplitAdd{i == 1 ? parts[0] : sum, parts[i], sum});
    }
  }
};

const RegisterGpuLayer<SplitGpu> registered("Split");

}  // namespace
}  // namespace millrace::inline nn
