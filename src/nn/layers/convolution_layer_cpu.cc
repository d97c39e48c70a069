#include "nn/layers/convolution_kernel.h"
#include "nn/layers/convolution_layer.h"
#include "nn/layers/weight_gradient_kernel.h"
#include "nn/layout.h"
#include "nn/onednn/gemm_convolution.h"
#include "nn/onednn/onednn.h"

namespace millrace {
namespace {

using onednn::AnyDesc;
using onednn::Desc;
using onednn::DescOf;

// The weights stay in plain order in the flat array. Each pass converts them to the order that the
// primitive prefers, which costs under 1 % of the pass.
class ConvolutionCpu : public ConvolutionLayer {
 public:
  using ConvolutionLayer::ConvolutionLayer;

  Layout BottomLayout(int, const Blob& bottom) const override {
    if (bottom.num_axes() != 4) return Layout::kPlain;  // SetUp rejects it
    // With one channel, plain and channels-innermost order are the same.
    if (bottom.dim(1) == 1 && bottom.layout() == Layout::kPlain) return Layout::kPlain;
    return LayoutFor(ReadGeometry(bottom), bottom.shape(), bottom.shape());
  }

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      const Shape shape = geometry_.TopShape(bottom[i]->shape());
      if (bottom[i]->shape() != bottom[0]->shape()) {
        throw FieldError("bottom", "all bottoms of a convolution must have one shape");
      }
      top[i]->Reshape(shape, LayoutFor(geometry_, bottom[0]->shape(), shape));
    }
    if (bottom[0]->shape() == described_ && bottom[0]->layout() == described_layout_) return;
    described_ = bottom[0]->shape();
    described_layout_ = bottom[0]->layout();
    onednn::Describe("convolution", [&] { DescribeForward(*bottom[0], *top[0]); });
    backward_data_ = backward_weights_ = onednn::Op();
    ConsiderGemm(*bottom[0], *top[0]);
    ConsiderOwnKernels(*bottom[0], *top[0]);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    weights_in_.Run(params_[0].blob->data(), weights_.get<float>());
    for (size_t i = 0; i < bottom.size(); ++i) {
      if (own_forward_) {
        own_forward_->Run(bottom[i]->data(), weights_.get<float>(),
                          geometry_.bias ? params_[1].blob->data() : nullptr, top[i]->data());
        continue;
      }
      forward_.Run({{DNNL_ARG_SRC, bottom[i]->data()},
                    {DNNL_ARG_WEIGHTS, weights_.get()},
                    {DNNL_ARG_BIAS, geometry_.bias ? params_[1].blob->data() : nullptr},
                    {DNNL_ARG_DST, top[i]->data()}});
    }
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    for (size_t i = 0; i < top.size(); ++i) {
      BackwardParams(*top[i], *bottom[i]);
      if (!propagate_down[i]) continue;
      if (gemm_) {
        weights_back_.Run(params_[0].blob->data(), weights_for_data_.get<float>());
        gemm_->Data(top[i]->diff(), weights_for_data_.get<float>(), bottom[i]->diff());
        continue;
      }
      if (!backward_data_) onednn::Describe("convolution", [&] { DescribeBackwardData(); });
      const float* weights = weights_.get<float>();
      if (weights_back_) {
        weights_back_.Run(params_[0].blob->data(), weights_for_data_.get<float>());
        weights = weights_for_data_.get<float>();
      }
      backward_data_.Run({{DNNL_ARG_DIFF_DST, top[i]->diff()},
                          {DNNL_ARG_WEIGHTS, weights},
                          {DNNL_ARG_DIFF_SRC, bottom[i]->diff()}});
    }
  }

 private:
  void BackwardParams(const Blob& top, const Blob& bottom) {
    Param& weight = params_[0];
    const bool bias_wanted = geometry_.bias && params_[1].wanted;
    if (!weight.wanted && !bias_wanted) return;
    if (!gemm_ && !own_gradient_ && !backward_weights_) {
      onednn::Describe("convolution", [&] { DescribeBackwardWeights(); });
    }
    float* weight_diff = weight_target_.Begin(weight);
    float* bias_diff = geometry_.bias ? bias_target_.Begin(params_[1]) : nullptr;
    if (gemm_) {
      gemm_->Weights(bottom.data(), top.diff(), weight_diff, bias_diff);
    } else if (own_gradient_) {
      own_gradient_->Run(bottom.data(), top.diff(), weight_diff, bias_diff);
    } else {
      backward_weights_.Run({{DNNL_ARG_SRC, bottom.data()},
                             {DNNL_ARG_DIFF_DST, top.diff()},
                             {DNNL_ARG_DIFF_WEIGHTS, weight_diff},
                             {DNNL_ARG_DIFF_BIAS, bias_diff}});
    }
    if (weight.wanted) {
      weight_target_.End(weight);
      *weight.has_gradient = true;
    }
    if (bias_wanted) {
      bias_target_.End(params_[1]);
      *params_[1].has_gradient = true;
    }
  }

  struct Windows {
    Shape strides, dilates, padding, padding_end;
  };
  static Windows WindowsOf(const ConvolutionGeometry& g, const Shape& bottom, const Shape& top) {
    Windows windows{{g.stride[0], g.stride[1]},
                    {g.dilation[0] - 1, g.dilation[1] - 1},
                    {g.pad[0], g.pad[1]},
                    {}};
    for (int axis : {0, 1}) {
      windows.padding_end.push_back((top[2 + axis] - 1) * g.stride[axis] + g.Extent(axis) -
                                    bottom[2 + axis] - g.pad[axis]);
    }
    return windows;
  }

  // The order of a blob of shape `shape`, the bottom or the top of a convolution whose bottoms have
  // the shape `bottom`.
  Layout LayoutFor(const ConvolutionGeometry& g, const Shape& bottom, const Shape& shape) const {
    if (BetterInPlainOrder(g, bottom)) return Layout::kPlain;
    return FittingLayout(context_.preferred_layout, shape);
  }

  // In some orders oneDNN computes dilated windows, and groups that do not fill vectors, only with
  // its reference code, which takes hundreds of times as long. In plain order it uses matrix
  // products for them. All other convolutions use the net's order.
  bool BetterInPlainOrder(const ConvolutionGeometry& g, const Shape& bottom) const {
    const Layout preferred = context_.preferred_layout;
    const bool plain = g.group == 1 && g.dilation[0] == 1 && g.dilation[1] == 1;
    if (plain || preferred == Layout::kPlain) return false;
    if (bottom != compared_) {
      compared_ = bottom;
      const int there =
          onednn::Describe("convolution", [&] { return ReferencePasses(g, bottom, preferred); });
      plain_is_better_ = there > 0 && onednn::Describe("convolution", [&] {
                                        return ReferencePasses(g, bottom, Layout::kPlain);
                                      }) < there;
    }
    return plain_is_better_;
  }

  // The number of the three passes that oneDNN computes with its reference code.
  static int ReferencePasses(const ConvolutionGeometry& g, const Shape& bottom, Layout layout) {
    const Shape top = g.TopShape(bottom);
    const Windows w = WindowsOf(g, bottom, top);
    const Desc from = DescOf(bottom, FittingLayout(layout, bottom));
    const Desc to = DescOf(top, FittingLayout(layout, top));
    const Desc weights = AnyDesc(g.GroupedWeightShape());
    const Desc bias = g.bias ? DescOf({g.num_output}) : Desc();
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const auto reference = [](const auto& pd) {
      return static_cast<int>(std::string(pd.impl_info_str()).rfind("ref", 0) == 0);
    };
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm, from, weights, bias, to, w.strides,
         w.dilates, w.padding, w.padding_end},
        onednn::Attributes(), onednn::Engine());
    const dnnl::convolution_backward_data::primitive_desc data(
        {algorithm, from, weights, to, w.strides, w.dilates, w.padding, w.padding_end},
        onednn::Attributes(), onednn::Engine(), forward);
    const dnnl::convolution_backward_weights::primitive_desc gradient(
        {algorithm, from, weights, bias, to, w.strides, w.dilates, w.padding, w.padding_end},
        onednn::Attributes(), onednn::Engine(), forward);
    return reference(forward) + reference(data) + reference(gradient);
  }

  // The descriptor of the bottom for the primitives. With one channel, plain order is
  // channels-innermost order.
  Desc SourceDesc(const Blob& bottom, const Blob& top) const {
    const bool one_channel = bottom.dim(1) == 1 && top.layout() == Layout::kNhwc;
    return DescOf(bottom.shape(), one_channel ? Layout::kNhwc : bottom.layout());
  }

  void DescribeForward(const Blob& bottom, const Blob& top) {
    const ConvolutionGeometry& g = geometry_;
    const Shape weight_shape = geometry_.GroupedWeightShape();
    source_ = SourceDesc(bottom, top);
    destination_ = DescOf(top);
    windows_ = WindowsOf(g, bottom.shape(), top.shape());
    bias_ = g.bias ? DescOf({g.num_output}) : Desc();
    const dnnl::convolution_forward::desc desc(
        dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, source_,
        AnyDesc(weight_shape), bias_, destination_, windows_.strides, windows_.dilates,
        windows_.padding, windows_.padding_end);
    forward_pd_ =
        dnnl::convolution_forward::primitive_desc(desc, onednn::Attributes(), onednn::Engine());
    const Desc plain = DescOf(weight_shape);
    weights_in_ = onednn::Reorder(plain, forward_pd_.weights_desc(), context_.scratch);
    weights_ = Buffer(HostMemory(), forward_pd_.weights_desc().get_size());
    forward_ =
        onednn::MakeOp<dnnl::convolution_forward>(forward_pd_,
                                                  {{DNNL_ARG_SRC, source_},
                                                   {DNNL_ARG_WEIGHTS, forward_pd_.weights_desc()},
                                                   {DNNL_ARG_BIAS, bias_},
                                                   {DNNL_ARG_DST, destination_}},
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
    gemm_.reset();
    if (!simple || bottom.layout() != Layout::kNhwc || top.layout() != Layout::kNhwc ||
        !onednn::GemmConvolutionPays(shape)) {
      return;
    }
    const Desc plain = DescOf(geometry_.GroupedWeightShape());
    const Desc ohwi(geometry_.GroupedWeightShape(), dnnl::memory::data_type::f32,
                    dnnl::memory::format_tag::ohwi);
    gemm_ = std::make_unique<onednn::GemmConvolutionBackward>(shape);
    weights_back_ = onednn::Reorder(plain, ohwi, context_.scratch);
    weights_for_data_ = Buffer(HostMemory(), ohwi.get_size());
    weight_target_ = onednn::GradientTarget(ohwi, plain, context_.scratch);
    bias_target_ = onednn::GradientTarget(bias_, bias_, context_.scratch);
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
    own_forward_.reset();
    own_gradient_.reset();
    const bool few_channels = bottom.layout() == Layout::kPlain && bottom.dim(1) < 8;
    if (gemm_ || (!few_channels && bottom.layout() != Layout::kBlocked8) ||
        top.layout() != Layout::kBlocked8 || g.dilation[0] != 1 || g.dilation[1] != 1) {
      return;
    }
    if (ConvolutionKernelPays(shape)) {
      own_forward_ = std::make_unique<ConvolutionKernel>(shape);
      const Shape rows{1, g.num_output, shape.taps()};
      const Desc pairs(rows, dnnl::memory::data_type::f32, dnnl::memory::format_tag::aBc16b);
      weights_in_ = onednn::Reorder(DescOf(rows), pairs, context_.scratch);
      weights_ = Buffer(HostMemory(), pairs.get_size());
    }
    if (!WeightGradientPays(shape)) return;
    own_gradient_ = std::make_unique<WeightGradient>(shape);
    const Desc plain = DescOf(geometry_.GroupedWeightShape());
    weight_target_ = onednn::GradientTarget(plain, plain, context_.scratch);
    bias_target_ = onednn::GradientTarget(bias_, bias_, context_.scratch);
  }

  void DescribeBackwardData() {
    const Shape weight_shape = geometry_.GroupedWeightShape();
    const dnnl::convolution_backward_data::desc data_desc(
        dnnl::algorithm::convolution_direct, source_, AnyDesc(weight_shape), destination_,
        windows_.strides, windows_.dilates, windows_.padding, windows_.padding_end);
    const dnnl::convolution_backward_data::primitive_desc data_pd(data_desc, onednn::Attributes(),
                                                                  onednn::Engine(), forward_pd_);
    weights_back_ = onednn::Reorder();
    if (own_forward_ || data_pd.weights_desc() != forward_pd_.weights_desc()) {
      weights_back_ =
          onednn::Reorder(DescOf(weight_shape), data_pd.weights_desc(), context_.scratch);
      weights_for_data_ = Buffer(HostMemory(), data_pd.weights_desc().get_size());
    }
    backward_data_ =
        onednn::MakeOp<dnnl::convolution_backward_data>(data_pd,
                                                        {{DNNL_ARG_DIFF_DST, destination_},
                                                         {DNNL_ARG_WEIGHTS, data_pd.weights_desc()},
                                                         {DNNL_ARG_DIFF_SRC, source_}},
                                                        context_.scratch);
  }

  void DescribeBackwardWeights() {
    const Shape weight_shape = geometry_.GroupedWeightShape();
    const dnnl::convolution_backward_weights::desc weights_desc(
        dnnl::algorithm::convolution_direct, source_, AnyDesc(weight_shape), bias_, destination_,
        windows_.strides, windows_.dilates, windows_.padding, windows_.padding_end);
    dnnl::convolution_backward_weights::primitive_desc weights_pd(
        weights_desc, onednn::Attributes(), onednn::Engine(), forward_pd_);
    while (WritesBeyondScratch() && IsOneByOneKernel(weights_pd.impl_info_str())) {
      if (!weights_pd.next_impl()) throw Error("convolution: this geometry cannot be computed");
    }
    weight_target_ = onednn::GradientTarget(weights_pd.diff_weights_desc(), DescOf(weight_shape),
                                            context_.scratch);
    bias_target_ = onednn::GradientTarget(bias_, bias_, context_.scratch);
    backward_weights_ = onednn::MakeOp<dnnl::convolution_backward_weights>(
        weights_pd,
        {{DNNL_ARG_SRC, source_},
         {DNNL_ARG_DIFF_DST, destination_},
         {DNNL_ARG_DIFF_WEIGHTS, weights_pd.diff_weights_desc()},
         {DNNL_ARG_DIFF_BIAS, bias_}},
        context_.scratch);
  }

  // Works around a oneDNN bug (2.6 to at least 3.12). If channels are innermost and fewer than a
  // vector's lanes, the kernels for strided 1x1 convolutions gather the bottom into scratch memory
  // at intervals of whole vectors, but reserve memory for the channels alone. They write beyond it,
  // and the gradient is wrong.
  bool WritesBeyondScratch() const {
    constexpr int64_t kMostLanes = 16;
    return described_[1] < kMostLanes && geometry_.kernel[0] * geometry_.kernel[1] == 1 &&
           geometry_.stride[0] * geometry_.stride[1] > 1;
  }
  static bool IsOneByOneKernel(const std::string& implementation) {
    return implementation.find("1x1") != std::string::npos;
  }

  Shape described_;
  Layout described_layout_ = Layout::kPlain;
  Desc source_, destination_, bias_;
  Windows windows_;
  mutable Shape compared_;  // bottom shape that plain_is_better_ holds for
  mutable bool plain_is_better_ = false;
  dnnl::convolution_forward::primitive_desc forward_pd_;
  onednn::Op forward_, backward_data_, backward_weights_;
  std::unique_ptr<onednn::GemmConvolutionBackward> gemm_;  // replaces the last two
  std::unique_ptr<ConvolutionKernel> own_forward_;         // replaces forward_
  std::unique_ptr<WeightGradient> own_gradient_;           // replaces backward_weights_
  onednn::Reorder weights_in_, weights_back_;
  onednn::GradientTarget weight_target_, bias_target_;
  Buffer weights_, weights_for_data_;
};

const RegisterLayer<ConvolutionCpu> registered("Convolution", DeviceType::kCpu);

}  // namespace
}  // namespace millrace
