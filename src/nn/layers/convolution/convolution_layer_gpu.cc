#include <memory>
#include <optional>

#include "millrace/queue.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/gpu/gpu_library.h"
#include "nn/layers/convolution/column_convolution.h"
#include "nn/layers/convolution/convolution_geometry.h"
#include "nn/layers/convolution/convolution_layer.h"
#include "nn/layers/convolution/planned_convolution.h"
#include "nn/layers/inner_product/biased_top.h"
#include "nn/layers/layer_interfaces.h"

namespace millrace::inline nn {
namespace {

// Chooses the algorithms of convolutions and deconvolutions on GPUs.

// A plan for the geometry's convolution from a blob of shape `bottom` to one of shape `top`: the
// vendor's library computes up to two spatial axes, matrix products compute more. `kept`: of the
// layer. Throws Error.
std::unique_ptr<ConvolutionPlan> PlanGpuConvolution(const ConvolutionGeometry& geometry,
                                                    const Shape& bottom, const Shape& top,
                                                    Queue& queue, KeptInput kept);

std::unique_ptr<ConvolutionPlan> PlanGpuConvolution(const ConvolutionGeometry& g,
                                                    const Shape& bottom, const Shape& top,
                                                    Queue& queue, KeptInput kept) {
  GpuLibrary& library = GpuLibraryOf(queue);
  const Shape from = g.Folded(bottom), to = g.Folded(top);
  if (g.axes() > 2 || g.WindowExceeds(bottom)) {
    return PlanColumnConvolution(
        g, from, queue,
        [&library](bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                   const float* a, const float* b, bool add, float* c) {
          library.Multiply(transpose_a, transpose_b, m, n, k, a, b, add, c);
        });
  }
  ConvolutionProblem problem{from[0], from[1], from[2], from[3], to[1], to[2],
                             to[3],   g.group, {},      {},      {},    {}};
  for (int axis : {0, 1}) {
    problem.kernel[axis] = g.kernel[axis];
    problem.stride[axis] = g.stride[axis];
    problem.pad[axis] = g.pad[axis];
    problem.dilation[axis] = g.dilation[axis];
  }
  return library.PlanConvolution(problem, kept);
}

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

const RegisterGpuLayer<ConvolutionGpu<ConvolutionLayer>> convolution_gpu("Convolution");
const RegisterGpuLayer<ConvolutionGpu<ConvolutionLayer>> depthwise_gpu("DepthwiseConvolution");
const RegisterGpuLayer<ConvolutionGpu<ConvolutionLayer>> other_name_gpu("ConvolutionDepthwise");
const RegisterGpuLayer<ConvolutionGpu<DeconvolutionLayer>> deconvolution_gpu("Deconvolution");

}  // namespace
}  // namespace millrace::inline nn
