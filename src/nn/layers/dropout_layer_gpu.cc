#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/dropout_kernels.h"
#include "nn/layers/dropout_layer.h"

namespace millrace::inline nn {
namespace {

class DropoutGpu : public DropoutLayer {
 public:
  using DropoutLayer::DropoutLayer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    if (drops()) key_ = MaskKey();
    Apply(bottom[0]->count(), bottom[0]->data(), top[0]->data());
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (propagate_down[0]) Apply(bottom[0]->count(), top[0]->diff(), bottom[0]->diff());
  }

 private:
  void Apply(int64_t count, const float* in, float* out) {
    if (drops() || scale_ != 1) {
      const uint32_t threshold = drops() ? threshold_ : 0;
      Launch(*context_.queue, DropoutMask::counters(count),
             DropoutMask{key_, threshold, scale_, count, in, out});
    } else if (in != out) {
      context_.queue->Copy(out, in, count * sizeof(float));
    }
  }

  uint64_t key_ = 0;  // of the last Forward
};

const RegisterGpuLayer<DropoutGpu> registered("Dropout");

}  // namespace
}  // namespace millrace::inline nn
