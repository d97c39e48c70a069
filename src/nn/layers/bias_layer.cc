#include "nn/layers/bias_layer.h"

#include "nn/layers/bias_kernels.h"
#include "nn/layers/channel_launch.h"

namespace millrace::inline nn {

BiasLayer::BiasLayer(const caffe::LayerParameter& param, const LayerContext& context)
    : Layer(param, context),
      axes_{"bias_param", param.bias_param().axis(), param.bias_param().num_axes()} {}

Layout BiasLayer::BottomLayout(int, const Blob& bottom) const {
  return param_.bottom_size() > 1 ? Layout::kPlain : axes_.LayoutOf(bottom);
}

void BiasLayer::SetUp(const Blobs& bottom, const Blobs&) {
  if (bottom.size() == 1) AddParam(axes_.ShapeIn(*bottom[0]), param_.bias_param().filler());
}

void BiasLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  view_ = axes_.View(*bottom[0], BiasOf(bottom).shape());
  top[0]->ReshapeLike(*bottom[0]);
  ChannelSumsMemory(context_);
}

void BiasLayer::Forward(const Blobs& bottom, const Blobs& top) {
  LaunchMap(*context_.queue, view_,
            BiasForward{bottom[0]->data(), BiasOf(bottom).data(), top[0]->data()});
}

void BiasLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                         const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const float* const top_diff = top[0]->diff();
  ChannelGradient bias{nullptr, false};
  if (bottom.size() > 1) {
    if (propagate_down[1]) bias.diff = bottom[1]->diff();
  } else if (params_[0].wanted) {
    bias = {params_[0].blob->diff(), *params_[0].has_gradient};
  }
  if (bias.diff != nullptr) {
    LaunchSums(context_, view_, BiasGradient{top_diff, bias});
  }
  if (propagate_down[0] && bottom[0] != top[0]) {
    queue.Copy(bottom[0]->diff(), top_diff, bottom[0]->count() * sizeof(float));
  }
}

namespace {

const RegisterLayer<BiasLayer> registered("Bias");

}  // namespace
}  // namespace millrace::inline nn
