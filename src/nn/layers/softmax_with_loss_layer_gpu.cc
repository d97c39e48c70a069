#include <glog/logging.h>

#include "nn/gpu/gpu_layer.h"
#include "nn/layers/position_results_gpu.h"
#include "nn/layers/softmax_with_loss_layer.h"

namespace millrace::inline nn {
namespace {

class SoftmaxWithLossGpu : public SoftmaxWithLossLayer {
 public:
  using SoftmaxWithLossLayer::SoftmaxWithLossLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    SoftmaxWithLossLayer::Reshape(bottom, top);
    results_.Reserve(view_, *context_.queue);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    Queue& queue = *context_.queue;
    const ClassesOfRow view{view_.classes, view_.inner};
    float* const probability = probability_.data();
    Launch(queue, results_.positions(), SoftmaxForward{view, bottom[0]->data(), probability});
    Launch(queue, results_.positions(),
           LossOfPositions{view, LabelsForKernels(*labels_, view_), probability, bottom[1]->data(),
                           class_weights(), results_.results(),
                           top.size() > 2 ? top[2]->data() : nullptr});
    results_.Mean(queue, counts_valid(), static_cast<float>(Normalizer(1)), top[0]->data());
    if (top.size() > 1) {
      queue.Copy(top[1]->data(), probability, probability_.count() * sizeof(float));
    }
  }

  void CheckForward(const Blobs& bottom) override { results_.Check(*labels_, view_, *bottom[1]); }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    CHECK(!propagate_down[1]) << "no gradient flows to labels";
    if (!propagate_down[0]) return;
    Launch(*context_.queue, probability_.count(),
           SoftmaxLossBackward{{view_.classes, view_.inner},
                               LabelsForKernels(*labels_, view_),
                               probability_.data(),
                               bottom[1]->data(),
                               class_weights(),
                               results_.totals(),
                               top[0]->diff(),
                               bottom[0]->diff()});
  }

 private:
  PositionResultsGpu results_;
};

const RegisterGpuLayer<SoftmaxWithLossGpu> registered("SoftmaxWithLoss");
const RegisterGpuLayer<SoftmaxWithLossGpu> ohem("SoftmaxWithLossOHEM");

}  // namespace
}  // namespace millrace::inline nn
