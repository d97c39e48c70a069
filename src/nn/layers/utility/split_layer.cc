// Distributes one blob to several consumers. The net inserts it where a blob is consumed more than
// once:
//   top[i] = bottom                        (shared memory, no copy)
//   dE/dbottom = sum over i of dE/dtop[i]
// Accepts any memory order.
#include <algorithm>
#include <limits>

#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/lanes.h"
#include "nn/layers/utility/split_kernels.h"

namespace millrace::inline nn {
namespace {

class SplitLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, 1, 1, std::numeric_limits<int>::max()}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }
  bool SharesData() const override { return true; }

  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
};

void SplitLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  for (Blob* blob : top) {
    // Shares first, so that a new top does not allocate memory.
    blob->ShareData(*bottom[0]);
    blob->ReshapeLike(*bottom[0]);
  }
}

void SplitLayer::Forward(const Blobs& bottom, const Blobs& top) {
  // The bottom's memory may have changed since the last pass.
  for (Blob* blob : top) {
    if (blob->data() != bottom[0]->data()) blob->ShareData(*bottom[0]);
  }
}

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

const RegisterLayer<SplitLayerCpu> split_layer_cpu("Split", DeviceType::kCpu);

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

const RegisterGpuLayer<SplitGpu> split_layer_gpu("Split");

}  // namespace
}  // namespace millrace::inline nn
