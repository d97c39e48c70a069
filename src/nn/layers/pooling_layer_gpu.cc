#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/pooling_kernels.h"
#include "nn/layers/stochastic_pooling_layer.h"

namespace millrace::inline nn {
namespace {

class PoolingGpu : public PoolingLayer {
 public:
  using PoolingLayer::PoolingLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    const Shape shape = TopShape(bottom[0]->shape());
    for (Blob* blob : top) blob->Reshape(shape);
    shape_ = ShapeForKernels(bottom[0]->shape(), shape);
    if (!is_max()) return;
    const size_t bytes = top[0]->count() * sizeof(int32_t);
    if (chosen_.bytes() >= bytes) return;
    context_.queue->Synchronize();  // work may use the old memory
    chosen_ = Buffer(memory(), bytes);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    const int64_t count = top[0]->count();
    if (is_max()) {
      Launch(*context_.queue, count,
             MaxPoolForward{shape_, bottom[0]->data(), top[0]->data(), chosen_.get<int32_t>(),
                            top.size() > 1 ? top[1]->data() : nullptr});
    } else {
      Launch(*context_.queue, count, AveragePoolTop{shape_, bottom[0]->data(), top[0]->data()});
    }
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    const int64_t count = bottom[0]->count();
    if (is_max()) {
      Launch(*context_.queue, count,
             MaxPoolBackward{shape_, top[0]->diff(), chosen_.get<int32_t>(), bottom[0]->diff()});
    } else {
      Launch(*context_.queue, count, AveragePoolBottom{shape_, top[0]->diff(), bottom[0]->diff()});
    }
  }

 private:
  PoolingShape shape_{};
  Buffer chosen_;
};

const bool registered = (GpuTypes::ForEach(RegisterPooling<PoolingGpu>), true);

}  // namespace
}  // namespace millrace::inline nn
