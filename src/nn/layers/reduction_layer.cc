#include "nn/layers/reduction_layer.h"

#include "device/kernel.h"
#include "nn/layers/axis_field.h"

namespace millrace::inline nn {

using caffe::ReductionParameter;

void ReductionLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const ReductionParameter& param = param_.reduction_param();
  const int axis = CheckedAxis(*bottom[0], param.axis(), "reduction_param.axis");
  const Shape& shape = bottom[0]->shape();
  top[0]->Reshape(Shape(shape.begin(), shape.begin() + axis));
  length_ = bottom[0]->count(axis);
  factor_ = param.coeff();
  if (param.operation() == ReductionParameter::MEAN) factor_ /= static_cast<float>(length_);
  reduced_ = param.operation() == ReductionParameter::ASUM    ? Reduced::kMagnitudes
             : param.operation() == ReductionParameter::SUMSQ ? Reduced::kSquares
                                                              : Reduced::kValues;
}

void ReductionLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Launch(*context_.queue, top[0]->count(),
         ReduceRows{length_, reduced_, factor_, bottom[0]->data(), top[0]->data()});
}

void ReductionLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                              const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         ReductionGradient{length_, reduced_, factor_, bottom[0]->data(), top[0]->diff(),
                           bottom[0]->diff()});
}

namespace {

const RegisterLayer<ReductionLayer> registered("Reduction");

}  // namespace
}  // namespace millrace::inline nn
