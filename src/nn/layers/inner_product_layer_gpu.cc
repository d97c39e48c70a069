#include "nn/gpu/gpu_layer.h"
#include "nn/gpu/gpu_library.h"
#include "nn/layers/biased_top.h"
#include "nn/layers/channel_launch.h"
#include "nn/layers/inner_product_layer.h"
#include "nn/layers/layer_fusion.h"

namespace millrace::inline nn {
namespace {

// Takes in a ReLU.
class InnerProductGpu : public InnerProductLayer, public FusesNext {
 public:
  using InnerProductLayer::InnerProductLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    top[0]->Reshape(TopShape(bottom[0]->shape()));
    GpuLibraryOf(*context_.queue);  // made now, so that the passes do not allocate
    ChannelSumsMemory(context_);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    const int64_t rows = this->rows(*bottom[0]);
    PrepareWeights();
    const float *const in = bottom[0]->data(), *const w = weights().blob->data();
    const float* const bias = bias_ ? params_[1].blob->data() : nullptr;
    float* const out = top[0]->data();
    const bool with_bias = bias_ && library().MultiplyWithBias(false, !transpose(), rows, outputs_,
                                                               inputs_, in, w, bias, out);
    if (!with_bias) {
      library().Multiply(false, !transpose(), rows, outputs_, inputs_, in, w, false, out);
    }
    output_.Forward(context_, ChannelView::Plain(rows, outputs_, 1), with_bias ? nullptr : bias,
                    out);
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    const int64_t rows = this->rows(*bottom[0]);
    float* const top_diff = top[0]->diff();
    ChannelGradient bias{nullptr, false};
    if (bias_ && params_[1].wanted) bias = {params_[1].blob->diff(), *params_[1].has_gradient};
    output_.Backward(context_, ChannelView::Plain(rows, outputs_, 1), top[0]->data(), top_diff,
                     bias);
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
    if (!propagate_down[0]) return;
    library().Multiply(false, transpose(), rows, inputs_, outputs_, top_diff,
                       weights().blob->data(), false, bottom[0]->diff());
  }
  bool TryFuse(Layer* next) override { return output_.TryFuse(next); }
  void UnfuseAll() override { output_.Unfuse(); }

 private:
  GpuLibrary& library() const { return GpuLibraryOf(*context_.queue); }

  BiasedTop output_;
};

const RegisterGpuLayer<InnerProductGpu> registered("InnerProduct");

}  // namespace
}  // namespace millrace::inline nn
