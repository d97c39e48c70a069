#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/lrn_kernels.h"
#include "nn/layers/lrn_layer.h"

namespace millrace::inline nn {
namespace {

class LrnGpu : public LrnLayer {
 public:
  using LrnLayer::LrnLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    ReshapeTop(bottom, top);
    const int64_t size = param_.lrn_param().local_size();
    region_ = {across(), bottom[0]->dim(1), bottom[0]->dim(2), bottom[0]->dim(3), (size - 1) / 2};
    const auto n = static_cast<float>(across() ? size : size * size);
    alpha_by_n_ = param_.lrn_param().alpha() / n;
    const size_t bytes = bottom[0]->count() * sizeof(float);
    if (scale_.bytes() >= bytes) return;
    context_.queue->Synchronize();  // work may use the old memory
    scale_ = Buffer(memory(), bytes);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    kept_.Keep(*bottom[0], *context_.queue);
    Launch(*context_.queue, bottom[0]->count(),
           LrnForward{region_, k(), alpha_by_n_, beta(), kept_.Values(*bottom[0]),
                      scale_.get<float>(), top[0]->data()});
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    Launch(*context_.queue, bottom[0]->count(),
           LrnBackward{region_, alpha_by_n_, beta(), kept_.Values(*bottom[0]), scale_.get<float>(),
                       top[0] == bottom[0] ? nullptr : top[0]->data(), TopDiff(*bottom[0], *top[0]),
                       bottom[0]->diff()});
  }

 private:
  float beta() const { return param_.lrn_param().beta(); }

  LrnRegion region_{};
  float alpha_by_n_ = 0;
  Buffer scale_;
};

const RegisterGpuLayer<LrnGpu> registered("LRN");

}  // namespace
}  // namespace millrace::inline nn
