#include "nn/layers/interp_layer.h"

#include "device/kernel.h"
#include "nn/layers/shape_field.h"

namespace millrace::inline nn {

bool InterpLayer::ByFactor() const {
  const caffe::InterpParameter& param = param_.interp_param();
  const bool shrinks = param.has_shrink_factor(), zooms = param.has_zoom_factor();
  return shrinks != zooms || (shrinks && !param.has_height() && !param.has_width());
}

InterpAxis InterpLayer::AxisOf(int64_t size, int64_t wanted) const {
  const caffe::InterpParameter& param = param_.interp_param();
  const int64_t part = size + param.pad_beg() + param.pad_end();
  if (part < 1) {
    throw FieldError("interp_param.pad_beg", param.pad_beg(), " and pad_end ", param.pad_end(),
                     " given, which leaves nothing of ", size, " values");
  }
  int64_t top = wanted;
  if (ByFactor()) {
    top = (part - 1) / param.shrink_factor() + 1;
    top += (top - 1) * (param.zoom_factor() - 1);
  }
  const float step = top > 1 ? static_cast<float>(part - 1) / static_cast<float>(top - 1) : 0.0f;
  return {size, -param.pad_beg(), part, top, step};
}

void InterpLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::InterpParameter& param = param_.interp_param();
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom", "has ", bottom[0]->num_axes(), " axes, expected 4 (N, C, H, W)");
  }
  for (const auto& [name, value] :
       {std::pair("pad_beg", param.pad_beg()), {"pad_end", param.pad_end()}}) {
    if (value <= 0) continue;
    throw FieldError(StrCat("interp_param.", name), value,
                     " given, expected 0 or a negative number");
  }
  for (const auto& [name, value] :
       {std::pair("shrink_factor", param.shrink_factor()), {"zoom_factor", param.zoom_factor()}}) {
    if (value >= 1) continue;
    throw FieldError(StrCat("interp_param.", name), value, " given, expected at least 1");
  }
  if (!ByFactor() && (param.height() < 1 || param.width() < 1)) {
    throw FieldError("interp_param",
                     "give height and width, or shrink_factor or zoom_factor or both");
  }
  rows_ = AxisOf(bottom[0]->dim(2), param.height());
  columns_ = AxisOf(bottom[0]->dim(3), param.width());
  Shape shape = bottom[0]->shape();
  shape[2] = rows_.top;
  shape[3] = columns_.top;
  int64_t count = 1;
  for (const int64_t dim : shape) count = CheckedProduct(count, dim, "interp_param", 0);
  top[0]->Reshape(shape);
}

void InterpLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Launch(*context_.queue, top[0]->count(),
         InterpForward{rows_, columns_, bottom[0]->data(), top[0]->data()});
}

void InterpLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                           const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         InterpGradient{rows_, columns_, top[0]->diff(), bottom[0]->diff()});
}

namespace {

const RegisterLayer<InterpLayer> registered("Interp");

}  // namespace
}  // namespace millrace::inline nn
