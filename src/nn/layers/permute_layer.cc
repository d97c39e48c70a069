#include "nn/layers/permute_layer.h"

#include <algorithm>

namespace millrace::inline nn {

void PermuteLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const auto& given = param_.permute_param().order();
  const int axes = bottom[0]->num_axes();
  std::vector<int> order;
  for (int i = 0; i < given.size(); ++i) {
    const std::string field = StrCat("permute_param.order[", i, "]");
    const int64_t axis = given.Get(i);
    if (axis >= axes) {
      throw FieldError(field, axis, " given, but the bottom has ", axes, " axes");
    }
    if (std::count(order.begin(), order.end(), axis) > 0) {
      throw FieldError(field, axis, " given twice");
    }
    order.push_back(static_cast<int>(axis));
  }
  for (int axis = 0; axis < axes; ++axis) {
    if (std::count(order.begin(), order.end(), axis) == 0) order.push_back(axis);
  }
  Shape shape;
  for (const int axis : order) shape.push_back(bottom[0]->dim(axis));
  top[0]->Reshape(shape);
  copy_ = StridedCopy();
  for (int i = 0; i < axes; ++i) {
    copy_.AddAxis(shape[i], bottom[0]->count(order[i] + 1), top[0]->count(i + 1));
  }
}

void PermuteLayer::Forward(const Blobs& bottom, const Blobs& top) {
  copy_.Run(*context_.queue, bottom[0]->data(), top[0]->data());
}

void PermuteLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                            const Blobs& bottom) {
  if (!propagate_down[0]) return;
  copy_.Reversed().Run(*context_.queue, top[0]->diff(), bottom[0]->diff());
}

namespace {

const RegisterLayer<PermuteLayer> registered("Permute");

}  // namespace
}  // namespace millrace::inline nn
