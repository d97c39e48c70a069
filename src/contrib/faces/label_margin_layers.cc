#include <algorithm>
#include <cmath>
#include <numbers>

#include "contrib/faces/margin_kernels.h"
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/activation/softmax_layer.h"
#include "nn/layers/loss/labels.h"
#include "nn/layers/shape/row_gather.h"
#include "nn/layers/write_number_kernels.h"

namespace millrace::inline contrib {
namespace {

// Base of layers that make the score of each example's label smaller, so that training separates
// classes by a margin. Bottoms: scores {N, ..}, labels (one for each of the N examples). Tests copy
// the scores, whatever the field `transform_test` is: as in Caffe.
class LabelMarginLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;

 protected:
  template <typename Formula>
  void RunForward(const Formula& formula, const Blobs& bottom, const Blobs& top) {
    if (CopiesInTest(bottom[0]->data(), top[0]->data())) return;
    Launch(*context_.queue, bottom[0]->count(),
           LabelMarginForward<Formula>{formula, view_.classes, bottom[1]->data(), bottom[0]->data(),
                                       top[0]->data()});
    check_.Enqueue(*context_.queue, view_.classes, view_.outer, bottom[1]->data());
  }
  // A layer that works in place needs a formula whose slope does not depend on the score.
  template <typename Formula>
  void RunBackward(const Formula& formula, const Blobs& top, const Blobs& bottom) {
    if (CopiesInTest(top[0]->diff(), bottom[0]->diff())) return;
    Launch(*context_.queue, bottom[0]->count(),
           LabelMarginBackward<Formula>{formula, view_.classes, bottom[1]->data(),
                                        bottom[0]->data(), top[0]->diff(), bottom[0]->diff()});
  }

 private:
  // In a test, enqueues the copy and returns true.
  bool CopiesInTest(const float* in, float* out);

  AxisView view_;  // of the scores: examples, classes
  IndexCheck check_;
};

void LabelMarginLayer::SetUp(const Blobs&, const Blobs&) { check_.Reserve(*context_.queue); }

void LabelMarginLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Blob& scores = *bottom[0];
  if (scores.num_axes() == 0) {
    throw FieldError("bottom[0]", "has no axes, expected at least 1");
  }
  view_.outer = scores.dim(0);
  view_.classes = scores.count(1);
  view_.inner = 1;
  if (bottom[1]->count() != view_.outer) {
    throw FieldError("bottom[1]", "has shape ", ShapeText(bottom[1]->shape()), ", expected ",
                     view_.outer, " labels: one for each example of bottom[0]");
  }
  if (top[0] != bottom[0]) top[0]->ReshapeLike(scores);
}

bool LabelMarginLayer::CopiesInTest(const float* in, float* out) {
  if (context_.phase == caffe::TRAIN) return false;
  if (in != out) context_.queue->Copy(out, in, view_.outer * view_.classes * sizeof(float));
  return true;
}

void LabelMarginLayer::CheckForward(const Blobs& bottom) {
  if (!check_.found()) return;
  std::vector<float> copy;
  Labels(name(), {}).CheckAll(bottom[1]->DataOnHost(&copy), view_);
}

// ArcFace (Deng, Guo, Zafeiriou 2018; xialuxi/arcface-caffe): of the score of each example's label,
// the cosine of an angle, the angle grows by cosin_add_m_param.m (AngleMargin).
class CosinAddmLayer : public LabelMarginLayer {
 public:
  using LabelMarginLayer::LabelMarginLayer;

  std::set<std::string> fields() const override { return {"cosin_add_m_param"}; }

  void SetUp(const Blobs& bottom, const Blobs& top) override {
    const double m = param_.cosin_add_m_param().m();
    if (!(m >= 0 && m <= std::numbers::pi)) {
      throw FieldError("cosin_add_m_param.m", m, " given, expected an angle from 0 to pi");
    }
    margin_ = {static_cast<float>(std::cos(m)), static_cast<float>(std::sin(m)),
               static_cast<float>(m * std::sin(m))};
    LabelMarginLayer::SetUp(bottom, top);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override { RunForward(margin_, bottom, top); }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (propagate_down[0]) RunBackward(margin_, top, bottom);
  }

 private:
  AngleMargin margin_{1, 0, 0};
};

const RegisterLayer<CosinAddmLayer> cosin_addm("CosinAddm");

// AM-Softmax (Wang, Cheng, Liu, Liu 2018; happynear/caffe-windows): adds a bias below 0 to the
// score of each example's label, where the score is above -bias.
//   label_specific_add_param.bias, or with bias_base, in pass n that follows `iteration` others,
//   bias_base + (1 + bias_gamma n)^bias_power - 1, but not outside of bias_min to bias_max.
// The optional second top {1} is the bias. The layer may work in place.

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

const RegisterLayer<LabelSpecificAddLayer> label_specific_add("LabelSpecificAdd");

}  // namespace
}  // namespace millrace::inline contrib
