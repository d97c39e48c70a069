#include "nn/layers/slice_layer.h"

#include "nn/layers/old_axis_field.h"
#include "nn/layout.h"

namespace millrace::inline nn {

std::vector<int64_t> SliceLayer::Sizes(int64_t size, int64_t tops) const {
  const auto& points = param_.slice_param().slice_point();
  if (points.empty()) {
    if (size % tops != 0) {
      throw FieldError("slice_param", "an axis of size ", size, " has no ", tops,
                       " equal parts: give slice_point");
    }
    return std::vector<int64_t>(tops, size / tops);
  }
  if (points.size() != tops - 1) {
    throw FieldError("slice_param.slice_point", points.size(), " given, expected ", tops - 1,
                     ", one less than tops");
  }
  std::vector<int64_t> sizes;
  int64_t begin = 0;
  for (int i = 0; i < points.size(); ++i) {
    const int64_t end = points.Get(i);
    // As in Caffe, the last part may be empty, unless there are more parts than places.
    if (end <= begin || end > size || tops > size) {
      throw FieldError(StrCat("slice_param.slice_point[", i, "]"), end,
                       " given, expected a number above ", begin, " and up to ", size);
    }
    sizes.push_back(end - begin);
    begin = end;
  }
  sizes.push_back(size - begin);
  return sizes;
}

int SliceLayer::AxisIn(const Blob& bottom) const {
  const caffe::SliceParameter& param = param_.slice_param();
  return AxisOf(bottom, "slice_param", param.has_axis(), param.axis(), "slice_dim",
                param.has_slice_dim(), param.slice_dim());
}

Layout SliceLayer::BottomLayout(int, const Blob& bottom) const {
  const Layout layout = bottom.layout();
  const int points = param_.slice_param().slice_point_size();
  const int tops = points > 0 ? points + 1 : param_.top_size();
  if (layout == Layout::kPlain || tops == 0) return Layout::kPlain;
  Shape shape = bottom.shape();
  const int axis = AxisIn(bottom);
  for (const int64_t size : Sizes(shape[axis], tops)) {
    shape[axis] = size;
    if (FittingLayout(layout, shape) != layout) return Layout::kPlain;
  }
  return layout;
}

void SliceLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  axis_ = AxisIn(*bottom[0]);
  Shape shape = bottom[0]->shape();
  const std::vector<int64_t> sizes = Sizes(shape[axis_], std::ssize(top));
  for (size_t i = 0; i < top.size(); ++i) {
    shape[axis_] = sizes[i];
    top[i]->Reshape(shape, bottom[0]->layout());
  }
}

}  // namespace millrace::inline nn
