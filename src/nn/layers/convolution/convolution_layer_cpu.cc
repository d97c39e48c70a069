#include "nn/layers/convolution/convolution_kernel.h"
#include "nn/layers/convolution/convolution_layer.h"
#include "nn/layers/convolution/convolution_plan_cpu.h"
#include "nn/layers/convolution/weight_gradient_kernel.h"
#include "nn/layout.h"
#include "nn/onednn/convolution_ops.h"
#include "nn/onednn/gemm_convolution.h"

namespace millrace::inline nn {
namespace {

using onednn::Desc;
using onednn::DescOf;

// Passes by oneDNN. The weights stay in plain order in the flat array. Each pass converts them to
// the order that its primitive prefers, which costs under 1 % of the pass.
class OneDnnConvolution : public ConvolutionLayer {
 public:
  using ConvolutionLayer::ConvolutionLayer;

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
    planned_.reset();
    if (geometry_.axes() > onednn::kMaxConvolutionAxes || WindowExceeds(geometry_, described_)) {
      planned_ = MakeColumnConvolutionCpu(geometry_, reversed(), context_,
                                          reversed() ? shape : described_);
      return;
    }
    onednn::Describe(operation(), [&] { Describe(*bottom[0], *top[0]); });
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    if (planned_) return planned_->Forward(params_, bottom, top);
    weights_in_.Run(params_[0].blob->data(), weights_.get<float>());
    for (size_t i = 0; i < bottom.size(); ++i) {
      RunForward(bottom[i]->data(), geometry_.bias ? params_[1].blob->data() : nullptr,
                 top[i]->data());
    }
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (planned_) return planned_->Backward(params_, top, propagate_down, bottom);
    for (size_t i = 0; i < top.size(); ++i) {
      BackwardParams(*top[i], *bottom[i]);
      if (propagate_down[i]) RunBackwardData(top[i]->diff(), bottom[i]->diff());
    }
  }

 protected:
  const char* operation() const { return reversed() ? "deconvolution" : "convolution"; }
  // Describes the passes for blobs like these, or the forward pass only.
  virtual void Describe(const Blob& bottom, const Blob& top) = 0;
  virtual void RunForward(const float* bottom, const float* bias, float* top) {
    forward_.Run({{DNNL_ARG_SRC, bottom},
                  {DNNL_ARG_WEIGHTS, weights_.get()},
                  {DNNL_ARG_BIAS, bias},
                  {DNNL_ARG_DST, top}});
  }
  virtual void RunBackwardData(const float* top_diff, float* bottom_diff) {
    const float* weights = weights_.get<float>();
    if (weights_back_) {
      weights_back_.Run(params_[0].blob->data(), weights_for_data_.get<float>());
      weights = weights_for_data_.get<float>();
    }
    backward_data_.Run({{DNNL_ARG_DIFF_DST, top_diff},
                        {DNNL_ARG_WEIGHTS, weights},
                        {DNNL_ARG_DIFF_SRC, bottom_diff}});
  }
  // Called before RunBackwardWeights: describes its pass if Describe has not.
  virtual void PrepareBackwardWeights() {}
  virtual void RunBackwardWeights(const float* bottom, const float* top_diff, float* weight_diff,
                                  float* bias_diff) {
    backward_weights_.Run({{DNNL_ARG_SRC, bottom},
                           {DNNL_ARG_DIFF_DST, top_diff},
                           {DNNL_ARG_DIFF_WEIGHTS, weight_diff},
                           {DNNL_ARG_DIFF_BIAS, bias_diff}});
  }

  onednn::Op forward_, backward_data_, backward_weights_;
  onednn::Reorder weights_in_, weights_back_;  // the latter: empty if both passes have one order
  onednn::GradientTarget weight_target_, bias_target_;
  Buffer weights_, weights_for_data_;

 private:
  // oneDNN has no convolution whose window is larger than the padded bottom.
  bool WindowExceeds(const ConvolutionGeometry& g, const Shape& bottom) const {
    return !reversed() && g.WindowExceeds(bottom);
  }

  void BackwardParams(const Blob& top, const Blob& bottom) {
    Param& weight = params_[0];
    const bool bias_wanted = geometry_.bias && params_[1].wanted;
    if (!weight.wanted && !bias_wanted) return;
    PrepareBackwardWeights();
    float* const weight_diff = weight_target_.Begin(weight);
    float* const bias_diff = geometry_.bias ? bias_target_.Begin(params_[1]) : nullptr;
    RunBackwardWeights(bottom.data(), top.diff(), weight_diff, bias_diff);
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
    if (!g.is_plain_2d() || WindowExceeds(g, bottom)) return Layout::kPlain;
    if (bottom != chosen_for_) {
      chosen_ = reversed() ? onednn::BestConvolutionLayout(g, g.BottomShape(bottom), bottom, true,
                                                           context_.preferred_layout)
                           : onednn::BestConvolutionLayout(g, bottom, g.TopShape(bottom), false,
                                                           context_.preferred_layout);
      chosen_for_ = bottom;
    }
    return FittingLayout(chosen_, shape);
  }

  Shape described_;
  Layout described_layout_ = Layout::kPlain;
  mutable Shape chosen_for_;  // bottom shape that chosen_ holds for
  mutable Layout chosen_ = Layout::kPlain;
  std::unique_ptr<PlannedConvolution> planned_;  // replaces all passes
};

class ConvolutionCpu : public OneDnnConvolution {
 public:
  using OneDnnConvolution::OneDnnConvolution;

  Layout BottomLayout(int index, const Blob& bottom) const override {
    // With one channel, plain and channels-innermost order are the same.
    if (ReadGeometry(bottom).is_plain_2d() && bottom.dim(1) == 1 &&
        bottom.layout() == Layout::kPlain) {
      return Layout::kPlain;
    }
    return OneDnnConvolution::BottomLayout(index, bottom);
  }

 private:
  void Describe(const Blob& bottom, const Blob& top) override {
    backward_data_ = backward_weights_ = onednn::Op();
    gemm_.reset();
    own_forward_.reset();
    own_gradient_.reset();
    DescribeForward(bottom, top);
    if (!geometry_.is_plain_2d()) return;
    ConsiderGemm(bottom, top);
    ConsiderOwnKernels(bottom, top);
  }

  void RunForward(const float* bottom, const float* bias, float* top) override {
    if (!own_forward_) return OneDnnConvolution::RunForward(bottom, bias, top);
    own_forward_->Run(bottom, weights_.get<float>(), bias, top);
  }

  void RunBackwardData(const float* top_diff, float* bottom_diff) override {
    if (gemm_) {
      weights_back_.Run(params_[0].blob->data(), weights_for_data_.get<float>());
      gemm_->Data(top_diff, weights_for_data_.get<float>(), bottom_diff);
      return;
    }
    if (!backward_data_) onednn::Describe(operation(), [&] { DescribeBackwardData(); });
    OneDnnConvolution::RunBackwardData(top_diff, bottom_diff);
  }

  void PrepareBackwardWeights() override {
    if (gemm_ || own_gradient_ || backward_weights_) return;
    onednn::Describe(operation(), [&] { DescribeBackwardWeights(); });
  }

  void RunBackwardWeights(const float* bottom, const float* top_diff, float* weight_diff,
                          float* bias_diff) override {
    if (gemm_) {
      gemm_->Weights(bottom, top_diff, weight_diff, bias_diff);
    } else if (own_gradient_) {
      own_gradient_->Run(bottom, top_diff, weight_diff, bias_diff);
    } else {
      OneDnnConvolution::RunBackwardWeights(bottom, top_diff, weight_diff, bias_diff);
    }
  }

  // The descriptor of the bottom for the primitives. With one channel, plain order is
  // channels-innermost order.
  Desc SourceDesc(const Blob& bottom, const Blob& top) const {
    const bool one_channel = top.layout() == Layout::kNhwc && bottom.dim(1) == 1;
    return DescOf(geometry_.Folded(bottom.shape()), one_channel ? Layout::kNhwc : bottom.layout());
  }

  void DescribeForward(const Blob& bottom, const Blob& top) {
    arrays_ = onednn::ConvolutionArrays(geometry_, SourceDesc(bottom, top),
                                        DescOf(geometry_.Folded(top.shape()), top.layout()), false);
    forward_pd_ = onednn::ForwardOf(arrays_);
    weights_in_ =
        onednn::Reorder(arrays_.plain_weights, forward_pd_.weights_desc(), context_.scratch);
    weights_ = Buffer(HostMemory(), forward_pd_.weights_desc().get_size());
    forward_ =
        onednn::MakeOp<dnnl::convolution_forward>(forward_pd_,
                                                  {{DNNL_ARG_SRC, arrays_.bottom},
                                                   {DNNL_ARG_WEIGHTS, forward_pd_.weights_desc()},
                                                   {DNNL_ARG_BIAS, arrays_.bias},
                                                   {DNNL_ARG_DST, arrays_.top}},
                                                  context_.scratch);
  }

  // Selects matrix products for the backward pass where they are faster (gemm_convolution.h).
  void ConsiderGemm(const Blob& bottom, const Blob& top) {
    const ConvolutionGeometry& g = geometry_;
    const onednn::GemmConvolutionShape shape{bottom.dim(0), bottom.dim(1), bottom.dim(2),
                                             bottom.dim(3), g.num_output,  g.kernel[0],
                                             g.kernel[1]};
    const bool simple = g.group == 1 && g.stride[0] == 1 && g.stride[1] == 1 && g.pad[0] == 0 &&
                        g.pad[1] == 0 && g.dilation[0] == 1 && g.dilation[1] == 1;
    if (!simple || bottom.layout() != Layout::kNhwc || top.layout() != Layout::kNhwc ||
        !onednn::IsGemmConvolutionWorthwhile(shape)) {
      return;
    }
    const Desc plain = arrays_.plain_weights;
    const Desc ohwi(geometry_.GroupedWeightShape(), dnnl::memory::data_type::f32,
                    dnnl::memory::format_tag::ohwi);
    gemm_ = std::make_unique<onednn::GemmConvolutionBackward>(shape);
    weights_back_ = onednn::Reorder(plain, ohwi, context_.scratch);
    weights_for_data_ = Buffer(HostMemory(), ohwi.get_size());
    weight_target_ = onednn::GradientTarget(ohwi, plain, context_.scratch);
    bias_target_ = onednn::GradientTarget(arrays_.bias, arrays_.bias, context_.scratch);
  }

  // Selects this project's own kernels for the forward pass and the weight gradient where they are
  // faster (convolution_kernel.h, weight_gradient_kernel.h).
  void ConsiderOwnKernels(const Blob& bottom, const Blob& top) {
    const ConvolutionGeometry& g = geometry_;
    const ConvolutionShape shape{bottom.dim(0), g.group,       BlockOf(bottom.layout()),
                                 bottom.dim(1), bottom.dim(2), bottom.dim(3),
                                 g.num_output,  top.dim(2),    top.dim(3),
                                 g.kernel[0],   g.kernel[1],   g.stride[0],
                                 g.stride[1],   g.pad[0],      g.pad[1]};
    const bool few_channels = bottom.layout() == Layout::kPlain && bottom.dim(1) < 8;
    if (gemm_ || (!few_channels && bottom.layout() != Layout::kBlocked8) ||
        top.layout() != Layout::kBlocked8 || g.dilation[0] != 1 || g.dilation[1] != 1) {
      return;
    }
    if (IsConvolutionKernelWorthwhile(shape)) {
      own_forward_ = std::make_unique<ConvolutionKernel>(shape);
      const Shape rows{1, g.num_output, shape.taps()};
      const Desc pairs(rows, dnnl::memory::data_type::f32, dnnl::memory::format_tag::aBc16b);
      weights_in_ = onednn::Reorder(DescOf(rows), pairs, context_.scratch);
      weights_ = Buffer(HostMemory(), pairs.get_size());
    }
    if (!IsWeightGradientKernelWorthwhile(shape)) return;
    own_gradient_ = std::make_unique<WeightGradient>(shape);
    const Desc& plain = arrays_.plain_weights;
    weight_target_ = onednn::GradientTarget(plain, plain, context_.scratch);
    bias_target_ = onednn::GradientTarget(arrays_.bias, arrays_.bias, context_.scratch);
  }

  void DescribeBackwardData() {
    const auto pd = onednn::BackwardDataOf(arrays_, forward_pd_);
    weights_back_ = onednn::Reorder();
    if (own_forward_ || pd.weights_desc() != forward_pd_.weights_desc()) {
      weights_back_ = onednn::Reorder(arrays_.plain_weights, pd.weights_desc(), context_.scratch);
      weights_for_data_ = Buffer(HostMemory(), pd.weights_desc().get_size());
    }
    backward_data_ =
        onednn::MakeOp<dnnl::convolution_backward_data>(pd,
                                                        {{DNNL_ARG_DIFF_DST, arrays_.top},
                                                         {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                         {DNNL_ARG_DIFF_SRC, arrays_.bottom}},
                                                        context_.scratch);
  }

  void DescribeBackwardWeights() {
    const auto pd = onednn::BackwardWeightsOf(arrays_, forward_pd_);
    weight_target_ =
        onednn::GradientTarget(pd.diff_weights_desc(), arrays_.plain_weights, context_.scratch);
    bias_target_ = onednn::GradientTarget(arrays_.bias, arrays_.bias, context_.scratch);
    backward_weights_ = onednn::MakeOp<dnnl::convolution_backward_weights>(
        pd,
        {{DNNL_ARG_SRC, arrays_.bottom},
         {DNNL_ARG_DIFF_DST, arrays_.top},
         {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
         {DNNL_ARG_DIFF_BIAS, arrays_.bias}},
        context_.scratch);
  }

  onednn::ConvolutionArrays arrays_;
  dnnl::convolution_forward::primitive_desc forward_pd_;
  std::unique_ptr<onednn::GemmConvolutionBackward> gemm_;  // replaces the backward passes
  std::unique_ptr<ConvolutionKernel> own_forward_;         // replaces forward_
  std::unique_ptr<WeightGradient> own_gradient_;           // replaces backward_weights_
};

class DeconvolutionCpu : public OneDnnConvolution {
 public:
  using OneDnnConvolution::OneDnnConvolution;

 private:
  bool reversed() const override { return true; }

  Desc FoldedDesc(const Blob& blob) const {
    return DescOf(geometry_.Folded(blob.shape()), blob.layout());
  }

  void Describe(const Blob& bottom, const Blob& top) override {
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
};

const RegisterLayer<ConvolutionCpu> convolution_layer("Convolution", DeviceType::kCpu);
const RegisterLayer<ConvolutionCpu> depthwise("DepthwiseConvolution", DeviceType::kCpu);
const RegisterLayer<ConvolutionCpu> other_name("ConvolutionDepthwise", DeviceType::kCpu);
const RegisterLayer<DeconvolutionCpu> deconvolution_layer("Deconvolution", DeviceType::kCpu);

}  // namespace
}  // namespace millrace::inline nn
