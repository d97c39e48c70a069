#include "nn/layers/inner_product_kernel.h"
#include "nn/layers/inner_product_layer.h"
#include "nn/onednn/onednn.h"

namespace millrace::inline nn {
namespace {

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
    by_hand_ = !transpose() && InnerProductKernelPays(shape_);
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

const RegisterLayer<InnerProductCpu> registered("InnerProduct", DeviceType::kCpu);

}  // namespace
}  // namespace millrace::inline nn
