#include "nn/layers/reorg_layer.h"

namespace millrace::inline nn {
namespace {

constexpr int64_t kMaxStride = 1 << 12;

}  // namespace

void ReorgLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Shape& from = bottom[0]->shape();
  if (from.size() != 4) {
    throw FieldError("bottom", "has ", from.size(), " axes, expected 4 (N, C, H, W)");
  }
  const int64_t s = param_.reorg_param().stride();
  if (s < 1 || s > kMaxStride) {
    throw FieldError("reorg_param.stride", s, " given, expected 1 to ", kMaxStride);
  }
  const bool reverse = param_.reorg_param().reverse();
  const int64_t channels = from[1], height = from[2], width = from[3], few = channels / (s * s);
  if (channels % (s * s) != 0) {
    throw FieldError("bottom", ShapeText(from), " given, expected a multiple of ", s * s,
                     " channels, the square of reorg_param.stride");
  }
  if (!reverse && (height % s != 0 || width % s != 0)) {
    throw FieldError("bottom", ShapeText(from),
                     " given, expected multiples of reorg_param.stride, ", s,
                     ", as height and width");
  }
  if (reverse) {
    top[0]->Reshape({from[0], few, height * s, width * s});
  } else {
    top[0]->Reshape({from[0], channels * s * s, height / s, width / s});
  }
  // From {N, C, H, W} to {N, C/s^2, H s, W s}.
  StridedCopy copy;
  const int64_t plane = height * width, row = width * s;
  copy.AddAxis(from[0], channels * plane, channels * plane);
  copy.AddAxis(s, s * few * plane, row);
  copy.AddAxis(s, few * plane, 1);
  copy.AddAxis(few, plane, plane * s * s);
  copy.AddAxis(height, width, row * s);
  copy.AddAxis(width, 1, s);
  copy_ = reverse ? copy : copy.Reversed();
}

void ReorgLayer::Forward(const Blobs& bottom, const Blobs& top) {
  copy_.Run(*context_.queue, bottom[0]->data(), top[0]->data());
}

void ReorgLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                          const Blobs& bottom) {
  if (!propagate_down[0]) return;
  copy_.Reversed().Run(*context_.queue, top[0]->diff(), bottom[0]->diff());
}

namespace {

const RegisterLayer<ReorgLayer> registered("Reorg");

}  // namespace
}  // namespace millrace::inline nn
