#include <optional>

#include "nn/gpu/gpu_layer.h"
#include "nn/layers/convolution_layer.h"
#include "nn/layers/convolution_plan_gpu.h"
#include "nn/layers/deconvolution_layer.h"
#include "nn/layers/planned_convolution.h"

namespace millrace::inline nn {
namespace {

// Base: ConvolutionLayer or DeconvolutionLayer.
template <typename Base>
class ConvolutionGpu : public Base {
 public:
  using Base::Base;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    const Shape& shape = bottom[0]->shape();
    const Shape out = this->CheckedTopShape(bottom);
    for (Blob* blob : top) blob->Reshape(out);
    if (convolution_ && shape == planned_) return;
    planned_ = shape;
    const bool reversed = this->reversed();
    convolution_.emplace(this->geometry_, reversed, this->context_,
                         PlanGpuConvolution(this->geometry_, reversed ? out : shape,
                                            reversed ? shape : out, *this->context_.queue));
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    convolution_->Forward(this->params_, bottom, top);
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    convolution_->Backward(this->params_, top, propagate_down, bottom);
  }

 private:
  Shape planned_;  // bottom shape that convolution_ is for
  std::optional<PlannedConvolution> convolution_;
};

const RegisterGpuLayer<ConvolutionGpu<ConvolutionLayer>> convolution("Convolution");
const RegisterGpuLayer<ConvolutionGpu<ConvolutionLayer>> depthwise("DepthwiseConvolution");
const RegisterGpuLayer<ConvolutionGpu<ConvolutionLayer>> other_name("ConvolutionDepthwise");
const RegisterGpuLayer<ConvolutionGpu<DeconvolutionLayer>> deconvolution("Deconvolution");

}  // namespace
}  // namespace millrace::inline nn
