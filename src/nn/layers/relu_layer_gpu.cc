#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/relu_kernels.h"
#include "nn/layers/relu_layer.h"

namespace millrace::inline nn {
namespace {

class ReluGpu : public ReluLayer {
 public:
  using ReluLayer::ReluLayer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    if (fused_) return;
    kept_.Keep(*bottom[0], *context_.queue);
    Launch(*context_.queue, bottom[0]->count(),
           ReluForward{slope(), bottom[0]->data(), top[0]->data()});
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0] || fused_) return;
    Launch(*context_.queue, bottom[0]->count(),
           ReluBackward{slope(), kept_.Values(*bottom[0]), top[0]->diff(), bottom[0]->diff()});
  }
};

const RegisterGpuLayer<ReluGpu> registered("ReLU");

}  // namespace
}  // namespace millrace::inline nn
