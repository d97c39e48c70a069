// AM-Softmax (Wang, Cheng, Liu, Liu 2018; happynear/caffe-windows): adds a bias below 0 to the
// score of each example's label, where the score is above -bias.
//   label_specific_add_param.bias, or with bias_base, in pass n that follows `iteration` others,
//   bias_base + (1 + bias_gamma n)^bias_power - 1, but not outside of bias_min to bias_max.
// The optional second top {1} is the bias. The layer may work in place.
#include <algorithm>
#include <cmath>

#include "nn/layers/label_margin_layer.h"
#include "nn/layers/write_number_kernels.h"

namespace millrace::inline nn {
namespace {

void CheckFinite(const char* field, float value) {
  if (std::isfinite(value)) return;
  throw FieldError(StrCat("label_specific_add_param.", field), value,
                   " given, expected a finite number");
}

class LabelSpecificAddLayer : public LabelMarginLayer {
 public:
  using LabelMarginLayer::LabelMarginLayer;

  Arity arity() const override { return {2, 2, 1, 2}; }
  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"label_specific_add_param"}; }

  void SetUp(const Blobs& bottom, const Blobs& top) override {
    const caffe::LabelSpecificAddParameter& param = param_.label_specific_add_param();
    CheckFinite("bias", param.bias());
    CheckFinite("bias_base", param.bias_base());
    CheckFinite("bias_gamma", param.bias_gamma());
    CheckFinite("bias_power", param.bias_power());
    if (!(param.bias_gamma() >= 0)) {
      throw FieldError("label_specific_add_param.bias_gamma", param.bias_gamma(),
                       " given, expected at least 0");
    }
    if (!(param.bias_min() <= param.bias_max())) {
      throw FieldError("label_specific_add_param.bias_min", param.bias_min(),
                       " given, expected at most bias_max, ", param.bias_max());
    }
    LabelMarginLayer::SetUp(bottom, top);
  }
  void Reshape(const Blobs& bottom, const Blobs& top) override {
    LabelMarginLayer::Reshape(bottom, top);
    if (top.size() > 1) top[1]->Reshape({1});
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    const float bias = Bias();
    RunForward(AddedMargin{bias}, bottom, top);
    if (top.size() > 1) Launch(*context_.queue, 1, WriteNumber<float>{bias, top[1]->data()});
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (propagate_down[0]) RunBackward(AddedMargin{0}, top, bottom);
  }

 private:
  float Bias() const {
    const caffe::LabelSpecificAddParameter& param = param_.label_specific_add_param();
    if (!param.has_bias_base()) return param.bias();
    const uint64_t pass = context_.pass ? *context_.pass : 0;
    const auto n = static_cast<double>(pass + param.iteration());
    const double bias =
        param.bias_base() + std::pow(1 + param.bias_gamma() * n, double{param.bias_power()}) - 1;
    return static_cast<float>(std::clamp(bias, double{param.bias_min()}, double{param.bias_max()}));
  }
};

const RegisterLayer<LabelSpecificAddLayer> registered("LabelSpecificAdd");

}  // namespace
}  // namespace millrace::inline nn
