#include "nn/layers/reverse_layer.h"

#include <algorithm>
#include <vector>

namespace millrace::inline nn {

std::vector<bool> ReverseLayer::ReversedAxes(const Blob& bottom) const {
  const caffe::ReverseParameter& param = param_.reverse_param();
  std::vector<bool> reversed(bottom.num_axes(), false);
  for (int i = 0; i < std::max(param.axis_size(), 1); ++i) {
    const int given = param.axis_size() == 0 ? 0 : param.axis(i);
    const int axis = bottom.CanonicalAxis(given, "reverse_param.axis");
    if (reversed[axis])
      throw FieldError("reverse_param.axis", given, " given twice, expected once");
    reversed[axis] = true;
  }
  return reversed;
}

void ReverseLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const std::vector<bool> reversed = ReversedAxes(*bottom[0]);
  top[0]->ReshapeLike(*bottom[0]);
  copy_ = StridedCopy();
  first_ = 0;
  for (int axis = 0; axis < bottom[0]->num_axes(); ++axis) {
    const int64_t size = bottom[0]->dim(axis), step = bottom[0]->count(axis + 1);
    copy_.AddAxis(size, reversed[axis] ? -step : step, step);
    if (reversed[axis]) first_ += (size - 1) * step;
  }
  if (bottom[0]->count() == 0) first_ = 0;  // there is no memory
}

void ReverseLayer::Forward(const Blobs& bottom, const Blobs& top) {
  copy_.Run(*context_.queue, bottom[0]->data() + first_, top[0]->data());
}

void ReverseLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                            const Blobs& bottom) {
  if (!propagate_down[0]) return;
  copy_.Run(*context_.queue, top[0]->diff() + first_, bottom[0]->diff());
}

namespace {

const RegisterLayer<ReverseLayer> registered("Reverse");

}  // namespace
}  // namespace millrace::inline nn
