#include "nn/onednn/parts.h"

namespace millrace::inline nn::onednn {
namespace {

// A blob as oneDNN sees it. Those with 4 axes may have any memory order; others are seen as the
// axes before, at and after `axis`, because oneDNN limits the number of axes.
Shape ViewedShape(const Blob& blob, int axis) {
  if (blob.num_axes() == 4) return blob.shape();
  return {blob.count(0, axis), blob.dim(axis), blob.count(axis + 1)};
}

}  // namespace

Parts::Parts(const Blob& whole, const std::vector<Blob*>& parts, int axis, Scratchpad* scratch) {
  const Desc all = DescOf(ViewedShape(whole, axis), whole.layout());
  Shape offset(ViewedShape(whole, axis).size(), 0);
  const int viewed_axis = whole.num_axes() == 4 ? axis : 1;
  for (const Blob* blob : parts) {
    const Shape shape = ViewedShape(*blob, axis);
    const Desc part = DescOf(shape, blob->layout());
    const Desc within = all.submemory_desc(shape, offset);
    insert_.emplace_back(part, within, scratch);
    extract_.emplace_back(within, part, scratch);
    offset[viewed_axis] += blob->dim(axis);
  }
}

}  // namespace millrace::inline nn::onednn
