// Combines blobs of one shape, value by value:
//   SUM:  top = sum over k of coeff_k bottom[k]     dE/dbottom[k] = coeff_k dE/dtop
//   PROD: top = product over k of bottom[k]         dE/dbottom[k] = dE/dtop * product over j != k
//                                                                   of bottom[j]
//   MAX:  top = the largest bottom[k]               dE/dbottom[k] = dE/dtop where k was chosen,
//   else 0
// coeff_k is 1 by default. Among equal largest values of the first two bottoms the second is
// chosen; a later bottom is chosen only if it is larger. With stable_prod_grad: false the product
// of the others is computed as top / bottom[k], which is faster with many bottoms and not finite
// where bottom[k] is 0. The bottoms may have any memory order; they all get that of the first.
//
// MAX ignores coefficients, as Caffe does. PROD and MAX may work in place on the first bottom. (A
// SUM may not: Caffe sets its top to 0 first, and so leaves that bottom out.)
#include <limits>

#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/elementwise/eltwise_kernels.h"
#include "nn/layers/kept_bottom.h"
#include "nn/layers/layer_interfaces.h"
#include "nn/layout.h"

namespace millrace::inline nn {
namespace {

class EltwiseLayer : public Layer, public BackwardReads {
 public:
  EltwiseLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), kept_(memory()) {}

  bool MayWorkInPlace() const override {
    return param_.eltwise_param().operation() != caffe::EltwiseParameter::SUM;
  }
  Arity arity() const override { return {2, std::numeric_limits<int>::max(), 1, 1}; }
  std::set<std::string> fields() const override { return {"eltwise_param"}; }
  Layout BottomLayout(int i, const Blob& bottom) const override;

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
  ValuesRead BackwardValues(const Blobs&, const Blobs&) const override {
    const bool product = operation_ == caffe::EltwiseParameter::PROD;
    return product ? ValuesRead::kAll : ValuesRead::kNone;
  }

 private:
  void ForwardSum(const Blobs& bottom, Blob* top);
  void ForwardProduct(const Blobs& bottom, Blob* top);
  void ForwardMax(const Blobs& bottom, Blob* top);
  void BackwardProduct(const Blob& top, size_t k, const Blobs& bottom);

  caffe::EltwiseParameter::EltwiseOp operation_ = caffe::EltwiseParameter::SUM;
  std::vector<float> coeff_;
  mutable Layout layout_ = Layout::kPlain;  // of the first bottom
  KeptBottom kept_;                         // PROD: of the first bottom
  Buffer chosen_;                           // MAX: int32_t, number of the chosen bottom per value
};

using caffe::EltwiseParameter;

Layout EltwiseLayer::BottomLayout(int i, const Blob& bottom) const {
  if (i == 0) layout_ = bottom.layout();
  return FittingLayout(layout_, bottom.shape());
}

void EltwiseLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const EltwiseParameter& param = param_.eltwise_param();
  operation_ = param.operation();
  const int bottoms = static_cast<int>(bottom.size());
  if (param.coeff_size() > 0 && operation_ == EltwiseParameter::PROD) {
    throw FieldError("eltwise_param.coeff", "only the operation SUM has coefficients");
  }
  if (param.coeff_size() > 0 && param.coeff_size() != bottoms) {
    throw FieldError("eltwise_param.coeff", param.coeff_size(), " given, expected ", bottoms,
                     ", one per bottom");
  }
  coeff_.assign(bottoms, 1.0f);
  for (int i = 0; i < param.coeff_size(); ++i) coeff_[i] = param.coeff(i);
}

void EltwiseLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  for (size_t i = 1; i < bottom.size(); ++i) {
    if (bottom[i]->shape() == bottom[0]->shape()) continue;
    throw FieldError(StrCat("bottom[", i, "]"), "has shape ", ShapeText(bottom[i]->shape()),
                     ", expected that of bottom[0], ", ShapeText(bottom[0]->shape()));
  }
  top[0]->ReshapeLike(*bottom[0]);
  if (operation_ == EltwiseParameter::PROD) kept_.Reshape(*bottom[0], *top[0]);
  const size_t bytes = top[0]->count() * sizeof(int32_t);
  if (operation_ != EltwiseParameter::MAX || chosen_.bytes() >= bytes) return;
  context_.queue->Synchronize();  // work may use the old memory
  chosen_ = Buffer(memory(), bytes);
}

void EltwiseLayer::Forward(const Blobs& bottom, const Blobs& top) {
  switch (operation_) {
    case EltwiseParameter::SUM:
      return ForwardSum(bottom, top[0]);
    case EltwiseParameter::PROD:
      return ForwardProduct(bottom, top[0]);
    case EltwiseParameter::MAX:
      return ForwardMax(bottom, top[0]);
  }
}

void EltwiseLayer::ForwardSum(const Blobs& bottom, Blob* top) {
  float* const sum = top->data();
  Launch(*context_.queue, top->count(),
         EltwiseSum{coeff_[0], coeff_[1], bottom[0]->data(), bottom[1]->data(), sum});
  for (size_t i = 2; i < bottom.size(); ++i) {
    Launch(*context_.queue, top->count(), EltwiseSum{1, coeff_[i], sum, bottom[i]->data(), sum});
  }
}

void EltwiseLayer::ForwardProduct(const Blobs& bottom, Blob* top) {
  kept_.Keep(*bottom[0], *context_.queue);
  float* const product = top->data();
  Launch(*context_.queue, top->count(),
         EltwiseProduct{bottom[0]->data(), bottom[1]->data(), product});
  for (size_t i = 2; i < bottom.size(); ++i) {
    Launch(*context_.queue, top->count(), EltwiseProduct{product, bottom[i]->data(), product});
  }
}

void EltwiseLayer::ForwardMax(const Blobs& bottom, Blob* top) {
  auto* const chosen = chosen_.get<int32_t>();
  Launch(*context_.queue, top->count(),
         EltwiseMaxOfTwo{bottom[0]->data(), bottom[1]->data(), top->data(), chosen});
  for (size_t i = 2; i < bottom.size(); ++i) {
    Launch(*context_.queue, top->count(),
           EltwiseMaxOfNext{static_cast<int32_t>(i), bottom[i]->data(), top->data(), chosen});
  }
}

void EltwiseLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                            const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const int64_t count = top[0]->count();
  const float* const top_diff = top[0]->diff();
  // The first bottom last: in place, its gradient overwrites that of the top.
  for (size_t i = bottom.size(); i-- > 0;) {
    if (!propagate_down[i]) continue;
    if (operation_ == EltwiseParameter::PROD) {
      BackwardProduct(*top[0], i, bottom);
    } else if (operation_ == EltwiseParameter::MAX) {
      Launch(queue, count,
             EltwiseMaxGradient{static_cast<int32_t>(i), chosen_.get<int32_t>(), top_diff,
                                bottom[i]->diff()});
    } else if (coeff_[i] == 1) {
      queue.Copy(bottom[i]->diff(), top_diff, count * sizeof(float));
    } else {
      Launch(queue, count, EltwiseScale{coeff_[i], top_diff, bottom[i]->diff()});
    }
  }
}

void EltwiseLayer::BackwardProduct(const Blob& top, size_t k, const Blobs& bottom) {
  Queue& queue = *context_.queue;
  float* const diff = bottom[k]->diff();
  const auto values = [&](size_t j) {
    return j == 0 ? kept_.Values(*bottom[0]) : bottom[j]->data();
  };
  if (!param_.eltwise_param().stable_prod_grad()) {
    return Launch(queue, top.count(),
                  EltwiseQuotientGradient{top.data(), values(k), top.diff(), diff});
  }
  const float* product = top.diff();
  for (size_t j = 0; j < bottom.size(); ++j) {
    if (j == k) continue;
    Launch(queue, top.count(), EltwiseProduct{product, values(j), diff});
    product = diff;
  }
}

const RegisterLayer<EltwiseLayer> eltwise_layer("Eltwise");

}  // namespace
}  // namespace millrace::inline nn
