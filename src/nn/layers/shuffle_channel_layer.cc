#include "nn/layers/shuffle_channel_layer.h"

namespace millrace::inline nn {

void ShuffleChannelLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  if (bottom[0]->num_axes() < 2) {
    throw FieldError("bottom", "has ", bottom[0]->num_axes(), " axes, expected at least 2");
  }
  const int64_t group = param_.shuffle_channel_param().group(), channels = bottom[0]->dim(1);
  if (group < 1 || channels % group != 0) {
    throw FieldError("shuffle_channel_param.group", group,
                     " given, expected a divisor of the number of channels, ", channels);
  }
  top[0]->ReshapeLike(*bottom[0]);
  const int64_t plane = bottom[0]->count(2), in_group = channels / group;
  copy_ = StridedCopy();
  copy_.AddAxis(bottom[0]->dim(0), channels * plane, channels * plane);
  copy_.AddAxis(in_group, plane, group * plane);
  copy_.AddAxis(group, in_group * plane, plane);
  copy_.AddAxis(plane, 1, 1);
}

void ShuffleChannelLayer::Forward(const Blobs& bottom, const Blobs& top) {
  copy_.Run(*context_.queue, bottom[0]->data(), top[0]->data());
}

void ShuffleChannelLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                   const Blobs& bottom) {
  if (!propagate_down[0]) return;
  copy_.Reversed().Run(*context_.queue, top[0]->diff(), bottom[0]->diff());
}

namespace {

const RegisterLayer<ShuffleChannelLayer> registered("ShuffleChannel");

}  // namespace
}  // namespace millrace::inline nn
