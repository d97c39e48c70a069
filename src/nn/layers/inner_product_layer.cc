#include "nn/layers/inner_product_layer.h"

#include "nn/filler.h"

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn
