#include "nn/layers/convolution/convolution_layer.h"
#include "nn/layers/convolution/convolution_plan_cpu.h"
#include "nn/layout.h"
#include "nn/onednn/convolution_ops.h"

namespace millrace::inline nn {
namespace {

using onednn::Desc;
using onednn::DescOf;

// As in ConvolutionCpu, each pass converts the weights to the order that its primitive prefers.
class DeconvolutionCpu : public DeconvolutionLayer {
 public:
  using DeconvolutionLayer::DeconvolutionLayer;

  Layout BottomLayout(int, const Blob& bottom) const override {
    return LayoutFor(ReadGeometry(bottom), bottom.shape(), bottom.shape());
  }

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    const Shape shape = CheckedTopShape(bottom);
    for (Blob* blob : top) {
      blob->Reshape(shape, LayoutFor(geometry_, bottom[0]->shape(), shape));
    }
    if (bottom[0]->shape() == described_ && bottom[0]->layout() == described_layout_) return;
    described_ = bottom[0]->shape();
    described_layout_ = bottom[0]->layout();
    if (geometry_.axes() > onednn::kMaxConvolutionAxes) {
      planned_ = MakeColumnConvolutionCpu(geometry_, true, context_, shape);
      return;
    }
    onednn::Describe("deconvolution", [&] { DescribePasses(*bottom[0], *top[0]); });
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    if (planned_) return planned_->Forward(params_, bottom, top);
    weights_in_.Run(params_[0].blob->data(), weights_.get<float>());
    for (size_t i = 0; i < bottom.size(); ++i) {
      forward_.Run({{DNNL_ARG_SRC, bottom[i]->data()},
                    {DNNL_ARG_WEIGHTS, weights_.get()},
                    {DNNL_ARG_BIAS, geometry_.bias ? params_[1].blob->data() : nullptr},
                    {DNNL_ARG_DST, top[i]->data()}});
    }
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (planned_) return planned_->Backward(params_, top, propagate_down, bottom);
    for (size_t i = 0; i < bottom.size(); ++i) {
      BackwardParams(*top[i], *bottom[i]);
      if (!propagate_down[i]) continue;
      weights_back_.Run(params_[0].blob->data(), weights_for_data_.get<float>());
      backward_data_.Run({{DNNL_ARG_DIFF_DST, top[i]->diff()},
                          {DNNL_ARG_WEIGHTS, weights_for_data_.get()},
                          {DNNL_ARG_DIFF_SRC, bottom[i]->diff()}});
    }
  }

 private:
  void BackwardParams(const Blob& top, const Blob& bottom) {
    Param& weight = params_[0];
    const bool bias_wanted = geometry_.bias && params_[1].wanted;
    if (!weight.wanted && !bias_wanted) return;
    float* const weight_diff = weight_target_.Begin(weight);
    float* const bias_diff = geometry_.bias ? bias_target_.Begin(params_[1]) : nullptr;
    backward_weights_.Run({{DNNL_ARG_SRC, bottom.data()},
                           {DNNL_ARG_DIFF_DST, top.diff()},
                           {DNNL_ARG_DIFF_WEIGHTS, weight_diff},
                           {DNNL_ARG_DIFF_BIAS, bias_diff}});
    if (weight.wanted) {
      weight_target_.End(weight);
      *weight.has_gradient = true;
    }
    if (bias_wanted) {
      bias_target_.End(params_[1]);
      *params_[1].has_gradient = true;
    }
  }

  // The order of a blob of shape `shape`, the bottom or the top of a layer whose bottoms have the
  // shape `bottom`.
  Layout LayoutFor(const ConvolutionGeometry& g, const Shape& bottom, const Shape& shape) const {
    if (!g.is_plain_2d()) return Layout::kPlain;
    if (bottom != chosen_for_) {
      chosen_ = onednn::BestConvolutionLayout(g, g.BottomShape(bottom), bottom, true,
                                              context_.preferred_layout);
      chosen_for_ = bottom;
    }
    return FittingLayout(chosen_, shape);
  }

  Desc FoldedDesc(const Blob& blob) const {
    return DescOf(geometry_.Folded(blob.shape()), blob.layout());
  }

  void DescribePasses(const Blob& bottom, const Blob& top) {
    const Desc from = FoldedDesc(bottom), to = FoldedDesc(top);
    const onednn::ConvolutionArrays arrays(geometry_, to, from, true);
    const Desc& plain = arrays.plain_weights;
    Scratchpad* const scratch = context_.scratch;

    const auto forward = onednn::DeconvolutionForwardOf(arrays);
    weights_in_ = onednn::Reorder(plain, forward.weights_desc(), scratch);
    weights_ = Buffer(HostMemory(), forward.weights_desc().get_size());
    forward_ =
        onednn::MakeOp<dnnl::deconvolution_forward>(forward,
                                                    {{DNNL_ARG_SRC, from},
                                                     {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                                                     {DNNL_ARG_BIAS, arrays.bias},
                                                     {DNNL_ARG_DST, to}},
                                                    scratch);

    const auto data = onednn::DeconvolutionBackwardDataOf(arrays, forward);
    weights_back_ = onednn::Reorder(plain, data.weights_desc(), scratch);
    weights_for_data_ = Buffer(HostMemory(), data.weights_desc().get_size());
    backward_data_ =
        onednn::MakeOp<dnnl::deconvolution_backward_data>(data,
                                                          {{DNNL_ARG_DIFF_DST, to},
                                                           {DNNL_ARG_WEIGHTS, data.weights_desc()},
                                                           {DNNL_ARG_DIFF_SRC, from}},
                                                          scratch);

    const auto weights = onednn::DeconvolutionBackwardWeightsOf(arrays, forward);
    weight_target_ = onednn::GradientTarget(weights.diff_weights_desc(), plain, scratch);
    bias_target_ = onednn::GradientTarget(arrays.bias, arrays.bias, scratch);
    backward_weights_ = onednn::MakeOp<dnnl::deconvolution_backward_weights>(
        weights,
        {{DNNL_ARG_SRC, from},
         {DNNL_ARG_DIFF_DST, to},
         {DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc()},
         {DNNL_ARG_DIFF_BIAS, arrays.bias}},
        scratch);
  }

  Shape described_;
  Layout described_layout_ = Layout::kPlain;
  mutable Shape chosen_for_;  // bottom shape that chosen_ holds for
  mutable Layout chosen_ = Layout::kPlain;
  onednn::Op forward_, backward_data_, backward_weights_;
  std::unique_ptr<PlannedConvolution> planned_;  // replaces all of them
  onednn::Reorder weights_in_, weights_back_;
  onednn::GradientTarget weight_target_, bias_target_;
  Buffer weights_, weights_for_data_;
};

const RegisterLayer<DeconvolutionCpu> deconvolution_layer("Deconvolution", DeviceType::kCpu);

}  // namespace
}  // namespace millrace::inline nn
