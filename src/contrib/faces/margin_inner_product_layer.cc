// Angular margins of SphereFace (Liu, Wen, Yu, Li, Raj, Song 2017), as in wy1iu/sphereface:
// products of the features with weights of length 1, of which the one with the label's class is
// made smaller, so that features of a class come to lie closer together.
//
// Bottoms: features, whose axes from margin_inner_product_param.axis on form K columns of M rows,
// and labels, one per row. top[0]: the axes of the rows, then num_output. top[1] (optional):
// lambda, without a gradient. Weights W {num_output, K}, no bias. With the angle a between a row x
// and the weights w of a class,
//   top = |x| cos a                                       for other classes than the label
//   top = (lambda |x| cos a + |x| psi(a)) / (1 + lambda)  for the label
//   psi(a) = (-1)^k cos(m a) - 2k   for a from k pi/m to (k + 1) pi/m;  m = 1 (SINGLE) to 4
//   lambda = max(lambda_min, base (1 + gamma n)^-power)
// n counts the forward passes of the run, of all solvers, from `iteration` + 1 on; in other nets,
// those of the net.
//
// Gradients are exact. SphereFace's layer differs in three ways: it sets the weights themselves to
// length 1 in every pass, where W keeps its length here and the gradient is orthogonal to each row;
// it takes the gradient of W as that of a plain product; and it scales the two parts of the
// gradient of x, along w and along x, so that the sum of their squared factors is 1.
#include <algorithm>
#include <cmath>

#include "contrib/faces/margin_kernels.h"
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/filler.h"
#include "nn/layers/loss/labels.h"
#include "nn/layers/norm/l2_norm_kernels.h"
#include "nn/layers/shape/row_gather.h"
#include "nn/layers/write_number_kernels.h"
#include "nn/matrix_product.h"

namespace millrace::inline contrib {
namespace {

class MarginInnerProductLayer : public Layer {
 public:
  MarginInnerProductLayer(const caffe::LayerParameter& param, const LayerContext& context);

  Arity arity() const override { return {2, 2, 1, 2}; }
  std::set<std::string> fields() const override { return {"margin_inner_product_param"}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  // The value in the current pass.
  float Lambda() const;
  MarginScores ScoresOf(const Blobs& bottom) const;

  int axis_ = 1;
  int64_t features_ = 0;  // K
  AxisView view_;         // of the labels: rows, classes
  float lambda_ = 0;      // of the last forward pass
  Blob inverse_example_, inverse_class_, products_, product_diff_, sums_;
  IndexCheck check_;  // of the labels
};

// Added to squared lengths, so that rows of zeros have an inverse.
constexpr float kEps = 1e-30f;

void CheckAtLeastZero(const char* field, float value) {
  if (value >= 0 && std::isfinite(value)) return;
  throw FieldError(StrCat("margin_inner_product_param.", field), value,
                   " given, expected a finite number of at least 0");
}

MarginInnerProductLayer::MarginInnerProductLayer(const caffe::LayerParameter& param,
                                                 const LayerContext& context)
    : Layer(param, context),
      inverse_example_(memory()),
      inverse_class_(memory()),
      products_(memory()),
      product_diff_(memory()),
      sums_(memory()) {}

void MarginInnerProductLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::MarginInnerProductParameter& param = param_.margin_inner_product_param();
  if (param.num_output() < 1) {
    throw FieldError("margin_inner_product_param.num_output", param.num_output(),
                     " given, expected at least 1");
  }
  CheckAtLeastZero("base", param.base());
  CheckAtLeastZero("gamma", param.gamma());
  CheckAtLeastZero("lambda_min", param.lambda_min());
  if (!std::isfinite(param.power())) {
    throw FieldError("margin_inner_product_param.power", param.power(),
                     " given, expected a finite number");
  }
  if (param.iteration() < 0) {
    throw FieldError("margin_inner_product_param.iteration", param.iteration(),
                     " given, expected at least 0");
  }
  axis_ = bottom[0]->CanonicalAxis(param.axis(), "margin_inner_product_param.axis");
  features_ = bottom[0]->count(axis_);
  const Shape shape{param.num_output(), features_};
  CheckFiller(param.weight_filler(), shape, "margin_inner_product_param.weight_filler");
  AddParam(shape, param.weight_filler());
  check_.Reserve(*context_.queue);
  PrepareMultiply(*context_.queue);
}

void MarginInnerProductLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Shape& from = bottom[0]->shape();
  if (bottom[0]->num_axes() <= axis_ || bottom[0]->count(axis_) != features_) {
    throw FieldError("bottom[0]", "has shape ", ShapeText(from), ", expected ", features_,
                     " values per row");
  }
  view_.outer = bottom[0]->count(0, axis_);
  view_.classes = param_.margin_inner_product_param().num_output();
  view_.inner = 1;
  if (bottom[1]->count() != view_.outer) {
    throw FieldError("bottom[1]", "has shape ", ShapeText(bottom[1]->shape()), ", expected ",
                     view_.outer, " labels: one for each row of bottom[0]");
  }
  Shape shape(from.begin(), from.begin() + axis_);
  shape.push_back(view_.classes);
  top[0]->Reshape(shape);
  if (top.size() > 1) top[1]->Reshape({1});
  inverse_example_.Reshape({view_.outer});
  inverse_class_.Reshape({view_.classes});
  sums_.Reshape({view_.classes});
  products_.Reshape({view_.outer, view_.classes});
  product_diff_.Reshape({view_.outer, view_.classes});
}

float MarginInnerProductLayer::Lambda() const {
  const caffe::MarginInnerProductParameter& param = param_.margin_inner_product_param();
  const uint64_t pass = context_.pass ? *context_.pass : 0;
  const double n = static_cast<double>(pass) + param.iteration() + 1;
  const double lambda = param.base() * std::pow(1 + param.gamma() * n, -double{param.power()});
  return static_cast<float>(std::max(lambda, double{param.lambda_min()}));
}

MarginScores MarginInnerProductLayer::ScoresOf(const Blobs& bottom) const {
  // The numbers of MarginType are 0 to 3.
  const int multiple = param_.margin_inner_product_param().type() + 1;
  return {{multiple},
          lambda_,
          view_.classes,
          {view_.classes, false, 0},
          bottom[1]->data(),
          inverse_example_.data(),
          inverse_class_.data(),
          products_.data()};
}

void MarginInnerProductLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  lambda_ = Lambda();
  const float* const x = bottom[0]->data();
  const float* const weights = params_[0].blob->data();
  Launch(queue, view_.outer, InverseNormOfImage{features_, kEps, x, inverse_example_.data()});
  Launch(queue, view_.classes, InverseNormOfImage{features_, kEps, weights, inverse_class_.data()});
  Multiply(queue, false, true, view_.outer, view_.classes, features_, x, weights, false,
           products_.data());
  Launch(queue, top[0]->count(), MarginForward{ScoresOf(bottom), top[0]->data()});
  if (top.size() > 1) Launch(queue, 1, WriteNumber<float>{lambda_, top[1]->data()});
  check_.Enqueue(queue, view_.classes, view_.outer, bottom[1]->data());
}

void MarginInnerProductLayer::CheckForward(const Blobs& bottom) {
  if (!check_.found()) return;
  std::vector<float> copy;
  Labels(name(), {}).CheckAll(bottom[1]->DataOnHost(&copy), view_);
}

void MarginInnerProductLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                       const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const MarginScores scores = ScoresOf(bottom);
  const Param& param = params_[0];
  const float* const weights = param.blob->data();
  const float* const x = bottom[0]->data();
  if (!param.wanted && !propagate_down[0]) return;
  Launch(queue, top[0]->count(), MarginBackward{scores, top[0]->diff(), product_diff_.data()});
  if (param.wanted) {
    float* const diff = param.blob->diff();
    Multiply(queue, true, false, view_.classes, features_, view_.outer, product_diff_.data(), x,
             *param.has_gradient, diff);
    Launch(queue, view_.classes,
           MarginSumOfClass{scores, view_.outer, product_diff_.data(), sums_.data()});
    Launch(queue, param.blob->count(),
           MarginOfWeights{features_, sums_.data(), inverse_class_.data(), weights, diff});
  }
  if (!propagate_down[0]) return;
  Multiply(queue, false, false, view_.outer, features_, view_.classes, product_diff_.data(),
           weights, false, bottom[0]->diff());
  Launch(queue, view_.outer,
         MarginOfLength{scores, features_, top[0]->diff(), x, bottom[0]->diff()});
}

const RegisterLayer<MarginInnerProductLayer> margin_inner_product_layer("MarginInnerProduct");

}  // namespace
}  // namespace millrace::inline contrib
