#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/dropout_kernels.h"
#include "nn/layers/dropout_layer.h"
#include "nn/layers/pass_preparation.h"
#include "nn/layers/random_key.h"

namespace millrace::inline nn {
namespace {

class DropoutGpu : public DropoutLayer, public PreparesPass {
 public:
  using DropoutLayer::DropoutLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    DropoutLayer::Reshape(bottom, top);
    if (multiplies()) key_.Allocate(memory());
  }
  void PreparePass() override {
    if (multiplies()) key_.Store(context_, kRngDropout);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    PrepareInForward();
    Apply(bottom[0]->count(), bottom[0]->data(), top[0]->data());
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (propagate_down[0]) Apply(bottom[0]->count(), top[0]->diff(), bottom[0]->diff());
  }

 private:
  bool multiplies() const { return drops() || scale_ != 1; }
  void Apply(int64_t count, const float* in, float* out) {
    if (multiplies()) {
      const uint32_t threshold = drops() ? threshold_ : 0;
      Launch(*context_.queue, DropoutMask::counters(count),
             DropoutMask{key_.get(), threshold, scale_, count, in, out});
    } else if (in != out) {
      context_.queue->Copy(out, in, count * sizeof(float));
    }
  }

  RandomKey key_;
};

const RegisterGpuLayer<DropoutGpu> registered("Dropout");

}  // namespace
}  // namespace millrace::inline nn
