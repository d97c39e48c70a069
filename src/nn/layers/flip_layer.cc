#include "nn/layers/flip_layer.h"

namespace millrace::inline nn {

std::vector<bool> FlipLayer::ReversedAxes(const Blob& bottom) const {
  const int axes = bottom.num_axes();
  if (axes > 4) throw FieldError("bottom", axes, " axes, expected at most 4");
  const caffe::FlipParameter& param = param_.flip_param();
  std::vector<bool> reversed(axes, false);
  if (axes > 2) reversed[2] = param.flip_height();
  if (axes > 3) reversed[3] = param.flip_width();
  return reversed;
}

namespace {

const RegisterLayer<FlipLayer> registered("Flip");

}  // namespace
}  // namespace millrace::inline nn
