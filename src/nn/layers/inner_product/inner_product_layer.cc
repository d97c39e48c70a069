// A fully connected layer: top = bottom W^T + bias.
//
// The axes of the bottom before `axis` form M rows, the axes from `axis` on form K columns. The top
// has the axes of the rows, then num_output. W is {num_output, K}, or {K, num_output} with
// `transpose`. The bias is {num_output}, absent if bias_term is false. With `normalize`, a field of
// happynear/caffe-windows, the rows of W are scaled to the length 1 (unit_rows.h).
#include <optional>

#include "millrace/layer.h"
#include "nn/filler.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/gpu/gpu_library.h"
#include "nn/layers/channel_launch.h"
#include "nn/layers/inner_product/biased_top.h"
#include "nn/layers/inner_product/inner_product_kernel.h"
#include "nn/layers/inner_product/unit_rows.h"
#include "nn/layers/layer_interfaces.h"
#include "nn/onednn/onednn.h"

namespace millrace::inline nn {
namespace {

class InnerProductLayer : public Layer, public BackwardReads {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"inner_product_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  ValuesRead BackwardValues(const Blobs&, const Blobs&) const override {
    return ValuesRead::kBottoms;
  }

 protected:
  Shape TopShape(const Shape& bottom) const;
  int64_t rows(const Blob& bottom) const { return bottom.count(0, axis_); }
  bool transpose() const { return param_.inner_product_param().transpose(); }
  // The weights that the products are computed with, and the place of their gradient.
  const Param& weights() const { return unit_ ? unit_->unit() : params_[0]; }
  // Call before a forward pass reads weights().
  void PrepareWeights();
  // Call when the gradient of weights() has been enqueued, if params_[0] is wanted.
  void FinishWeightGradient();

  int axis_ = 1;
  int64_t inputs_ = 0, outputs_ = 0;  // K, num_output
  bool bias_ = true;

 private:
  std::optional<UnitRows> unit_;
};

void InnerProductLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::InnerProductParameter& param = param_.inner_product_param();
  outputs_ = param.num_output();
  bias_ = param.bias_term();
  if (outputs_ < 1) {
    throw FieldError("inner_product_param.num_output", outputs_, " given, expected at least 1");
  }
  axis_ = bottom[0]->CanonicalAxis(param.axis(), "inner_product_param.axis");
  inputs_ = bottom[0]->count(axis_);
  const Shape weights = transpose() ? Shape{inputs_, outputs_} : Shape{outputs_, inputs_};
  CheckFiller(param.weight_filler(), weights, "inner_product_param.weight_filler");
  AddParam(weights, param.weight_filler());
  if (param.normalize()) {
    if (transpose()) {
      throw FieldError("inner_product_param.normalize", "true given, expected false as `transpose`",
                       " is set");
    }
    unit_.emplace(memory());
    unit_->Reshape(outputs_, inputs_);
  }
  if (!bias_) return;
  CheckFiller(param.bias_filler(), {outputs_}, "inner_product_param.bias_filler");
  AddParam({outputs_}, param.bias_filler());
}

void InnerProductLayer::PrepareWeights() {
  if (unit_) unit_->Forward(*context_.queue, params_[0].blob->data());
}

void InnerProductLayer::FinishWeightGradient() {
  if (unit_) unit_->Backward(*context_.queue, params_[0]);
}

Shape InnerProductLayer::TopShape(const Shape& bottom) const {
  const int64_t inputs = ShapeCount(Shape(bottom.begin() + axis_, bottom.end()));
  if (inputs != inputs_) {
    throw FieldError("bottom", "has ", inputs, " values per row, expected ", inputs_);
  }
  Shape top(bottom.begin(), bottom.begin() + axis_);
  top.push_back(outputs_);
  return top;
}

using onednn::Desc;
using onednn::DescOf;

// Uses the weights in place: converting them would cost more than a better order gains.
class InnerProductCpu : public InnerProductLayer {
 public:
  using InnerProductLayer::InnerProductLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    top[0]->Reshape(TopShape(bottom[0]->shape()));
    const int64_t rows = this->rows(*bottom[0]);
    if (rows == described_rows_) return;
    described_rows_ = rows;
    shape_ = {rows, inputs_, outputs_};
    by_hand_ = !transpose() && IsInnerProductKernelWorthwhile(shape_);
    if (by_hand_) scratch();  // reserve now, so that the passes do not allocate
    onednn::Describe("inner product", [&] { DescribeAll(rows); });
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    PrepareWeights();
    if (by_hand_) {
      return InnerProductForward(shape_, bottom[0]->data(), weights().blob->data(),
                                 bias_ ? params_[1].blob->data() : nullptr, top[0]->data(),
                                 scratch());
    }
    forward_.Run({{DNNL_ARG_SRC, bottom[0]->data()},
                  {DNNL_ARG_WEIGHTS, weights().blob->data()},
                  {DNNL_ARG_BIAS, bias_ ? params_[1].blob->data() : nullptr},
                  {DNNL_ARG_DST, top[0]->data()}});
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    const bool bias_wanted = bias_ && params_[1].wanted;
    if (params_[0].wanted || bias_wanted) {
      float* weight_diff = weight_target_.Begin(weights());
      float* bias_diff = bias_ ? bias_target_.Begin(params_[1]) : nullptr;
      if (by_hand_) {
        InnerProductBackwardWeights(shape_, bottom[0]->data(), top[0]->diff(), weight_diff,
                                    bias_diff, scratch());
      } else {
        backward_weights_.Run({{DNNL_ARG_SRC, bottom[0]->data()},
                               {DNNL_ARG_DIFF_DST, top[0]->diff()},
                               {DNNL_ARG_DIFF_WEIGHTS, weight_diff},
                               {DNNL_ARG_DIFF_BIAS, bias_diff}});
      }
      if (params_[0].wanted) {
        weight_target_.End(weights());
        FinishWeightGradient();
      }
      if (bias_wanted) bias_target_.End(params_[1]);
    }
    if (!propagate_down[0]) return;
    if (by_hand_) {
      return InnerProductBackwardData(shape_, top[0]->diff(), weights().blob->data(),
                                      bottom[0]->diff(), scratch());
    }
    backward_data_.Run({{DNNL_ARG_DIFF_DST, top[0]->diff()},
                        {DNNL_ARG_WEIGHTS, weights().blob->data()},
                        {DNNL_ARG_DIFF_SRC, bottom[0]->diff()}});
  }

 private:
  float* scratch() {
    return static_cast<float*>(context_.scratch->Get(InnerProductScratchBytes(shape_)));
  }

  void DescribeAll(int64_t rows) {
    const Desc source = DescOf({rows, inputs_});
    const Desc destination = DescOf({rows, outputs_});
    const Desc bias = bias_ ? DescOf({outputs_}) : Desc();
    // {num_output, K}, stored in either order.
    const Desc weights({outputs_, inputs_}, dnnl::memory::data_type::f32,
                       transpose() ? dnnl::memory::format_tag::ba : dnnl::memory::format_tag::ab);
    Scratchpad* scratch = context_.scratch;

    const onednn::PrimitiveDescs descs = onednn::Descs();
    const auto forward_pd = descs.Forward<dnnl::inner_product_forward>(
        dnnl::prop_kind::forward_training, source, weights, bias, destination);
    forward_ = onednn::MakeOp<dnnl::inner_product_forward>(forward_pd,
                                                           {{DNNL_ARG_SRC, source},
                                                            {DNNL_ARG_WEIGHTS, weights},
                                                            {DNNL_ARG_BIAS, bias},
                                                            {DNNL_ARG_DST, destination}},
                                                           scratch);
    const auto data_pd =
        descs.Backward<dnnl::inner_product_backward_data>(forward_pd, source, weights, destination);
    backward_data_ =
        onednn::MakeOp<dnnl::inner_product_backward_data>(data_pd,
                                                          {{DNNL_ARG_DIFF_DST, destination},
                                                           {DNNL_ARG_WEIGHTS, weights},
                                                           {DNNL_ARG_DIFF_SRC, source}},
                                                          scratch);
    const auto gradient_pd = descs.Backward<dnnl::inner_product_backward_weights>(
        forward_pd, source, weights, bias, destination);
    backward_weights_ =
        onednn::MakeOp<dnnl::inner_product_backward_weights>(gradient_pd,
                                                             {{DNNL_ARG_SRC, source},
                                                              {DNNL_ARG_DIFF_DST, destination},
                                                              {DNNL_ARG_DIFF_WEIGHTS, weights},
                                                              {DNNL_ARG_DIFF_BIAS, bias}},
                                                             scratch);
    weight_target_ = onednn::GradientTarget(weights, weights, scratch);
    bias_target_ = onednn::GradientTarget(bias, bias, scratch);
  }

  int64_t described_rows_ = -1;
  InnerProductShape shape_{};
  bool by_hand_ = false;  // use inner_product_kernel.h instead of primitives
  onednn::Op forward_, backward_data_, backward_weights_;
  onednn::GradientTarget weight_target_, bias_target_;
};

const RegisterLayer<InnerProductCpu> inner_product_layer_cpu("InnerProduct", DeviceType::kCpu);

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

const RegisterGpuLayer<InnerProductGpu> inner_product_layer_gpu("InnerProduct");

}  // namespace
}  // namespace millrace::inline nn
