// The indices of the top_k largest values, in descending order of the values. Of equal values the
// one with the larger index is first. Indices are floats.
//
// With `axis`: along this axis, which gets the size top_k. With out_max_val the top has the values
// instead of the indices.
// Without: among all values of an item of the batch. The top is {N, 1, top_k} with axes of size 1
// behind it for a bottom with more than 3 axes; with out_max_val it is {N, 2, top_k, ..}: the
// indices, then the values.
//
// No gradient flows through the layer.
#include <algorithm>

#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/fields.h"
#include "nn/layers/utility/argmax_kernels.h"

namespace millrace::inline nn {
namespace {

class ArgMaxLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"argmax_param"}; }
  bool AllowBackward(int) const override { return false; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  int64_t outer_ = 1, length_ = 1, inner_ = 1;
};

constexpr int64_t kMaxIndices = 1 << 24;  // that a float represents exactly

void ArgMaxLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::ArgMaxParameter& param = param_.argmax_param();
  if (bottom[0]->num_axes() == 0) throw FieldError("bottom", "has no axes, expected at least 1");
  const int axis =
      param.has_axis() ? CheckedAxis(*bottom[0], param.axis(), "argmax_param.axis") : 1;
  outer_ = bottom[0]->count(0, axis);
  length_ = param.has_axis() ? bottom[0]->dim(axis) : bottom[0]->count(1);
  inner_ = param.has_axis() ? bottom[0]->count(axis + 1) : 1;
  const int64_t top_k = param.top_k();
  if (top_k < 1 || top_k > length_) {
    throw FieldError("argmax_param.top_k", top_k, " given, expected 1 to ", length_);
  }
  if (length_ > kMaxIndices) {
    throw FieldError("bottom", "has ", length_, " values in a row, expected at most ", kMaxIndices);
  }
  Shape shape = bottom[0]->shape();
  if (param.has_axis()) {
    shape[axis] = top_k;
  } else {
    shape.assign(std::max<size_t>(shape.size(), 3), 1);
    shape[0] = outer_;
    shape[1] = param.out_max_val() ? 2 : 1;
    shape[2] = top_k;
  }
  top[0]->Reshape(shape);
}

void ArgMaxLayer::Forward(const Blobs& bottom, const Blobs& top) {
  const caffe::ArgMaxParameter& param = param_.argmax_param();
  const int64_t top_k = param.top_k();
  const bool both = param.out_max_val() && !param.has_axis();
  float* const out = top[0]->data();
  float* const indices = both || !param.out_max_val() ? out : nullptr;
  float* const values = both ? out + top_k : param.out_max_val() ? out : nullptr;
  Launch(*context_.queue, outer_ * inner_,
         LargestOfRows{length_, inner_, top_k, both ? 2 * top_k : top_k, bottom[0]->data(), indices,
                       values});
}

const RegisterLayer<ArgMaxLayer> argmax_layer("ArgMax");

}  // namespace
}  // namespace millrace::inline nn
