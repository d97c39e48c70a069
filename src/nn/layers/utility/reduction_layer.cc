// Reduces the axes from `axis` on, which may be negative, to one value each; the axes before it
// stay. Over the n values x of a row:
//   SUM:   top = coeff sum x         dE/dx = coeff dE/dtop
//   ASUM:  top = coeff sum |x|       dE/dx = coeff sign(x) dE/dtop, 0 where x is 0
//   SUMSQ: top = coeff sum x^2       dE/dx = coeff 2 x dE/dtop
//   MEAN:  top = coeff sum x / n     dE/dx = coeff / n dE/dtop
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/fields.h"
#include "nn/layers/utility/reduction_kernels.h"

namespace millrace::inline nn {
namespace {

class ReductionLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"reduction_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  int64_t length_ = 1;
  Reduced reduced_ = Reduced::kValues;
  float factor_ = 1;
};

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

const RegisterLayer<ReductionLayer> reduction_layer("Reduction");

}  // namespace
}  // namespace millrace::inline nn
