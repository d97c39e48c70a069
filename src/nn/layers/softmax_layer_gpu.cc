#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/softmax_kernels.h"
#include "nn/layers/softmax_layer.h"

namespace millrace::inline nn {
namespace {

class SoftmaxGpu : public SoftmaxLayer {
 public:
  using SoftmaxLayer::SoftmaxLayer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    Launch(*context_.queue, view_.outer * view_.inner,
           SoftmaxForward{{view_.classes, view_.inner}, bottom[0]->data(), top[0]->data()});
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    Launch(*context_.queue, view_.outer * view_.inner,
           SoftmaxBackward{
               {view_.classes, view_.inner}, top[0]->data(), top[0]->diff(), bottom[0]->diff()});
  }
};

const RegisterGpuLayer<SoftmaxGpu> registered("Softmax");

}  // namespace
}  // namespace millrace::inline nn
