#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/gpu/gpu_library.h"
#include "nn/layers/bias_kernels.h"
#include "nn/layers/inner_product_layer.h"

namespace millrace::inline nn {
namespace {

class InnerProductGpu : public InnerProductLayer {
 public:
  using InnerProductLayer::InnerProductLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    top[0]->Reshape(TopShape(bottom[0]->shape()));
    GpuLibraryOf(*context_.queue);  // made now, so that the passes do not allocate
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    const int64_t rows = this->rows(*bottom[0]);
    PrepareWeights();
    const float *const in = bottom[0]->data(), *const w = weights().blob->data();
    const float* const bias = bias_ ? params_[1].blob->data() : nullptr;
    float* const out = top[0]->data();
    if (bias_ && library().MultiplyWithBias(false, !transpose(), rows, outputs_, inputs_, in, w,
                                            bias, out)) {
      return;
    }
    library().Multiply(false, !transpose(), rows, outputs_, inputs_, in, w, false, out);
    if (bias_) Launch(*context_.queue, rows * outputs_, AddBias{outputs_, 1, bias, out});
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    const int64_t rows = this->rows(*bottom[0]);
    const float* const top_diff = top[0]->diff();
    if (params_[0].wanted) {
      const bool add = *weights().has_gradient;
      float* const diff = weights().blob->diff();
      if (transpose()) {
        library().Multiply(true, false, inputs_, outputs_, rows, bottom[0]->data(), top_diff, add,
                           diff);
      } else {
        library().Multiply(true, false, outputs_, inputs_, rows, top_diff, bottom[0]->data(), add,
                           diff);
      }
      FinishWeightGradient();
    }
    if (bias_ && params_[1].wanted) {
      Launch(*context_.queue, outputs_,
             BiasGradient{rows, outputs_, 1, *params_[1].has_gradient, top_diff,
                          params_[1].blob->diff()});
    }
    if (!propagate_down[0]) return;
    library().Multiply(false, transpose(), rows, inputs_, outputs_, top_diff,
                       weights().blob->data(), false, bottom[0]->diff());
  }

 private:
  GpuLibrary& library() const { return GpuLibraryOf(*context_.queue); }
};

const RegisterGpuLayer<InnerProductGpu> registered("InnerProduct");

}  // namespace
}  // namespace millrace::inline nn
