#include "nn/layers/channel_axes.h"

#include <algorithm>

namespace millrace::inline nn {

int MatchedAxes::FirstAxis(const Blob& bottom) const {
  const int axes = bottom.num_axes();
  if (axis < -axes || axis >= axes) {
    throw FieldError(field + ".axis", axis, " given, but the bottom has ", axes, " axes");
  }
  return axis < 0 ? axis + axes : axis;
}

Shape MatchedAxes::ShapeIn(const Blob& bottom) const {
  const int first = FirstAxis(bottom), left = bottom.num_axes() - first;
  if (num_axes < -1 || num_axes > left) {
    throw FieldError(field + ".num_axes", num_axes, " given, expected -1 to ", left,
                     ": the bottom has so many axes from axis ", first, " on");
  }
  const auto begin = bottom.shape().begin() + first;
  return Shape(begin, begin + (num_axes == -1 ? left : num_axes));
}

ChannelView MatchedAxes::View(const Blob& bottom, const Shape& array) const {
  if (array.empty()) return ChannelView::Plain(1, 1, bottom.count());
  const int first = FirstAxis(bottom), end = first + static_cast<int>(array.size());
  if (end > bottom.num_axes() ||
      !std::equal(array.begin(), array.end(), bottom.shape().begin() + first)) {
    throw FieldError("bottom", ShapeText(bottom.shape()), " does not match ", ShapeText(array),
                     " from axis ", first, " on");
  }
  if (bottom.layout() != Layout::kPlain) return ChannelsOf(bottom);
  return ChannelView::Plain(bottom.count(0, first), ShapeCount(array), bottom.count(end));
}

Layout MatchedAxes::LayoutOf(const Blob& bottom) const {
  const bool channels = (axis == 1 || axis == 1 - bottom.num_axes()) && num_axes == 1;
  return channels || num_axes == 0 ? bottom.layout() : Layout::kPlain;
}

}  // namespace millrace::inline nn
