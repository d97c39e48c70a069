#include <optional>

#include "nn/gpu/gpu_layer.h"
#include "nn/layers/biased_top.h"
#include "nn/layers/convolution_layer.h"
#include "nn/layers/convolution_plan_gpu.h"
#include "nn/layers/deconvolution_layer.h"
#include "nn/layers/layer_fusion.h"
#include "nn/layers/planned_convolution.h"

namespace millrace::inline nn {
namespace {

// Base: ConvolutionLayer or DeconvolutionLayer. Takes in a ReLU.
template <typename Base>
class ConvolutionGpu : public Base, public FusesNext {
 public:
  using Base::Base;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    const Shape& shape = bottom[0]->shape();
    const Shape out = this->CheckedTopShape(bottom);
    for (Blob* blob : top) blob->Reshape(out);
    if (convolution_ && shape == planned_) return;
    planned_ = shape;
    const bool reversed = this->reversed();
    const KeptInput kept = this->context_.phase != caffe::TRAIN ? KeptInput::kNone
                           : reversed                           ? KeptInput::kTop
                                                                : KeptInput::kBottom;
    convolution_.emplace(this->geometry_, reversed, this->context_,
                         PlanGpuConvolution(this->geometry_, reversed ? out : shape,
                                            reversed ? shape : out, *this->context_.queue, kept));
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    convolution_->Forward(this->params_, bottom, top, output_);
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    convolution_->Backward(this->params_, top, propagate_down, bottom, output_);
  }
  bool TryFuse(Layer* next) override { return output_.TryFuse(next); }
  void UnfuseAll() override { output_.Unfuse(); }

 private:
  Shape planned_;  // bottom shape that convolution_ is for
  std::optional<PlannedConvolution> convolution_;
  BiasedTop output_;
};

const RegisterGpuLayer<ConvolutionGpu<ConvolutionLayer>> convolution("Convolution");
const RegisterGpuLayer<ConvolutionGpu<ConvolutionLayer>> depthwise("DepthwiseConvolution");
const RegisterGpuLayer<ConvolutionGpu<ConvolutionLayer>> other_name("ConvolutionDepthwise");
const RegisterGpuLayer<ConvolutionGpu<DeconvolutionLayer>> deconvolution("Deconvolution");

}  // namespace
}  // namespace millrace::inline nn
