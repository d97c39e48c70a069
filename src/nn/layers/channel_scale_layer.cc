#include "nn/layers/channel_scale_layer.h"

#include "device/kernel.h"
#include "nn/layers/channel_scale_kernels.h"

namespace millrace::inline nn {

void ChannelScaleLayer::SetUp(const Blobs&, const Blobs&) {
  if (param_.channel_scale_param().global_scale()) {
    throw FieldError("channel_scale_param.global_scale", "true given, expected false");
  }
}

void ChannelScaleLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Blob &x = *bottom[0], &scales = *bottom[1];
  if (x.num_axes() < 2) {
    throw FieldError("bottom[0]", "has ", x.num_axes(), " axes, expected at least 2");
  }
  channels_ = x.dim(1);
  area_ = x.count(2);
  if (scales.num_axes() == 0 || scales.dim(0) != x.dim(0) || scales.count() != x.dim(0) * area_) {
    throw FieldError("bottom[1]", "has shape ", ShapeText(scales.shape()), ", expected ", x.dim(0),
                     " images of ", area_, " scales, one for each position of bottom[0]");
  }
  top[0]->ReshapeLike(x);
}

void ChannelScaleLayer::Scale(bool scales, const Blobs& bottom, const float* in, float* out) {
  const int64_t count = bottom[0]->count();
  if (scales) {
    Launch(*context_.queue, count, ScaleChannels{channels_, area_, bottom[1]->data(), in, out});
  } else {
    context_.queue->Copy(out, in, count * sizeof(float));
  }
}

void ChannelScaleLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Scale(param_.channel_scale_param().do_forward(), bottom, bottom[0]->data(), top[0]->data());
}

void ChannelScaleLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                 const Blobs& bottom) {
  const caffe::ChannelScaleParameter& param = param_.channel_scale_param();
  Queue& queue = *context_.queue;
  if (propagate_down[0]) {
    Scale(param.do_backward_feature(), bottom, top[0]->diff(), bottom[0]->diff());
  }
  if (!propagate_down[1]) return;
  const int64_t count = bottom[1]->count();
  if (param.do_backward_scale()) {
    Launch(queue, count,
           ChannelScaleGradient{channels_, area_, bottom[0]->data(), top[0]->diff(),
                                bottom[1]->diff()});
  } else {
    queue.Fill(bottom[1]->diff(), 0, count * sizeof(float));
  }
}

namespace {

const RegisterLayer<ChannelScaleLayer> registered("ChannelScale");

}  // namespace
}  // namespace millrace::inline nn
