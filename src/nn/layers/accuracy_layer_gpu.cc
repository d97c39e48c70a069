#include "nn/gpu/gpu_layer.h"
#include "nn/layers/accuracy_layer.h"
#include "nn/layers/position_results_gpu.h"

namespace millrace::inline nn {
namespace {

class AccuracyGpu : public AccuracyLayer {
 public:
  using AccuracyLayer::AccuracyLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    AccuracyLayer::Reshape(bottom, top);
    results_.Reserve(view_, *context_.queue);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    Queue& queue = *context_.queue;
    const KernelLabels labels = LabelsForKernels(*labels_, view_);
    Launch(queue, results_.positions(),
           RightPositions{{view_.classes, view_.inner},
                          labels,
                          top_k_,
                          bottom[0]->data(),
                          bottom[1]->data(),
                          results_.results()});
    results_.Mean(queue, true, 0, top[0]->data());
    if (top.size() > 1) {
      Launch(queue, view_.classes,
             MeanOfClasses{results_.positions(), labels, bottom[1]->data(), results_.results(),
                           top[1]->data()});
    }
  }

  void CheckForward(const Blobs& bottom) override { results_.Check(*labels_, view_, *bottom[1]); }

 private:
  PositionResultsGpu results_;
};

const RegisterGpuLayer<AccuracyGpu> registered("Accuracy");

}  // namespace
}  // namespace millrace::inline nn
